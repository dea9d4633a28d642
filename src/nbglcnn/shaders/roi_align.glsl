// Boxes of maps, each cut into bins, each bin sampled. x0 maps, x1 boxes (x and y of two corners), x2 each one's image.
// i[0] rows and columns of bins, samples of a bin along an axis (0: as many as it has pixels); coordinates are
// multiplied by u_scale, then u_shift is taken off; no side is shorter than u_least.
// LARGEST: not the mean of the samples, but the largest share that a pixel has of one of them, as ONNX has it.

// Of a bin along one axis, which begins at `begin` and is `width` long: `count` of `total` samples, from `first` on, may
// lie on the map; the others are 0.
struct Line { float begin, width, total, first; int count; };

Line line_of(float begin, float end, int bin, int bins, int size) {
  float length = max(end - begin, u_least), width = length / float(bins), total = float(u.i[0].z);
  if (u.i[0].z == 0) {
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
  l.count = clamp(int(min(most, total - l.first)), 0, u.i[0].z == 0 ? 2 * size + 8 : u.i[0].z);
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
  return flat_element(x1, u.x[1], box * 4 + k) * u_scale - u_shift;
}

vec4 pixel(ivec4 at) {
  Layout l = u.x[0];
  vec3 unit = vec3(UNIT(x0), 1.0);
  vec3 image = corner(l, clamp(int(flat_element(x2, u.x[2], at.x)), 0, l.nchw.x - 1), at.y);
  Line down = line_of(coordinate(at.x, 1), coordinate(at.x, 3), at.z, u.i[0].x, l.nchw.z);
  Line across = line_of(coordinate(at.x, 0), coordinate(at.x, 2), at.w, u.i[0].y, l.nchw.w);
  vec4 joined = vec4(0.0);
  bool zero = float(down.count) < down.total || float(across.count) < across.total, begun = false;
  for (int j = 0; j < down.count; j++) {
    vec3 y = between(down, j, l.nchw.z);
    vec2 top = place(int(y.x), l.phase.x, l.phase.w, l.block.y, l.block.z);
    vec2 low = place(int(y.y), l.phase.x, l.phase.w, l.block.y, l.block.z);
    for (int i = 0; i < across.count; i++) {
      vec3 x = between(across, i, l.nchw.w);
      if (x.x < 0.0 || y.x < 0.0) { zero = true; continue; }
      vec2 left = place(int(x.x), l.phase.y, l.phase.z, l.block.z, 1);
      vec2 right = place(int(x.y), l.phase.y, l.phase.z, l.block.z, 1);
#define SHARE(w, column, row) ((w) * SAMPLE(x0, l, (image + vec3(column.x, row.x, column.y + row.y)) * unit))
      vec4 a = SHARE((1.0 - y.z) * (1.0 - x.z), left, top), b = SHARE((1.0 - y.z) * x.z, right, top);
      vec4 c = SHARE(y.z * (1.0 - x.z), left, low), d = SHARE(y.z * x.z, right, low);
#if LARGEST
      vec4 v = larger(larger(a, b), larger(c, d));
      joined = begun ? larger(joined, v) : v;
      begun = true;
#else
      joined += a + b + c + d;
#endif
    }
  }
#if LARGEST
  return zero && begun ? larger(joined, vec4(0.0)) : joined;
#else
  return joined / max(down.total * across.total, 1.0);
#endif
}
