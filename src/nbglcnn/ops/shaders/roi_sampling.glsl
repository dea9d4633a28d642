// Boxes (x and y of two corners) that are cut into bins, and bins that are sampled. u_bins: their rows and columns;
// u_samples of a bin along an axis (0: as many as it has pixels); coordinates are multiplied by u_scale, then
// u_shift is taken off; no side is shorter than u_least. BOXES: where they lie.

// Of a bin along one axis, which begins at `begin` and is `width` long: `count` of `total` samples, from `first` on, may
// lie on the map; the others are 0.
struct Line { float begin, width, total, first; int count; };

Line line_of(float begin, float end, int bin, int bins, int size) {
  float length = max(end - begin, u_least), width = length / float(bins), total = float(u_samples);
  if (u_samples == 0) {
    total = ceil(width);
    // A division may miss a whole number by a rounding; the products of whole numbers do not.
    if ((total - 1.0) * float(bins) >= length) total -= 1.0;
    else if (total * float(bins) < length) total += 1.0;
  }
  Line l = Line(begin + float(bin) * width, width, max(total, 0.0), 0.0, 0);
  if (!(total >= 1.0)) return l;
  // Only those on the map are gone through: a box may be millions of pixels long.
  float reach = abs(width) / total, before = width < 0.0 ? l.begin - float(size) : -1.0 - l.begin;
  l.first = reach > 0.0 ? clamp(floor(before / reach) - 1.0, 0.0, total) : 0.0;
  float most = reach > 0.0 ? (float(size) + 1.0) / reach + 4.0 : total;
  l.count = clamp(int(min(most, total - l.first)), 0, u_samples == 0 ? 2 * size + 8 : u_samples);
  return l;
}

// The two pixels between which a sample lies, and the share of the second; below 0 outside of the map.
vec3 between(Line l, int k, int size) {
  // In the order in which PyTorch and ONNX Runtime round: a sample may lie just on the end of the map.
  float v = l.begin + (l.first + float(k) + 0.5) * l.width / l.total, last = float(size - 1);
  if (!(v >= -1.0 && v <= float(size))) return vec3(-1.0);
  v = max(v, 0.0);
  float low = min(floor(v), last);
  return vec3(low, min(low + 1.0, last), low == last ? 0.0 : v - low);
}

float coordinate(int box, int k) {
  return flat_element(BOXES, box * 4 + k) * u_scale - u_shift;
}
