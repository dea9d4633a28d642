// How much of each bin of a box (roi_sampling.glsl) is each row of a map, or with u_axis = 0 each column; u_size: their
// number.
float source(ivec4 at) {
  int axis = u_axis, size = u_size, place = at.w;
  Line l = line_of(coordinate(at.x, axis), coordinate(at.x, axis + 2), at.y, axis == 1 ? u_bins.x : u_bins.y, size);
  // Only the samples within two pixels are gone through.
  float step = l.width / max(l.total, 1.0), count = float(l.count), low = 0.0, high = count;
  if (step != 0.0) {
    float middle = (float(place) - l.begin) / step - l.first - 0.5, reach = 2.0 / abs(step);
    low = clamp(floor(middle - reach), 0.0, count);
    high = clamp(ceil(middle + reach) + 1.0, 0.0, count);
  }
  float sum = 0.0;
  for (int k = int(low); k < int(high); k++) {
    vec3 v = between(l, k, size);
    if (int(v.x) == place) sum += 1.0 - v.z;
    if (int(v.y) == place) sum += v.z;
  }
  return sum / max(l.total, 1.0);
}
