// One bend of a value. A program is for one transform, whose number is defined then, and for any layer; that of the
// page's previews has all of them and is told which by a uniform. What the numbers mean stands in features/edits/transforms.py, which
// has the same formulas for numpy.
//
// x0 is what is transformed, x1 the value before this bend (the same, but for the last of several stages), `table` has a
// texel for each group of four channels (0: not bent; of an injected array the channel's place in it, from 1),
// `array` the elements of an injected array. RESHAPED: the value is shown, and bent, in another nchw than it lies in.
// u_shown: n, c, h, w in which the value is shown; u_injected: channels of the array.
#ifndef TRANSFORM
#define TRANSFORM u_transform
#define ONE_CHANNEL u_one_channel  // of a preview, whose output is this channel alone; else -1
#endif
#define P0 u_parameters(0).x
#define P1 u_parameters(0).y
#define P2 u_parameters(0).z
#define P3 u_parameters(0).w

bool is_affine() {
  return TRANSFORM == TRANSLATE || TRANSFORM == SCALE || TRANSFORM == ROTATE || TRANSFORM == FLIP_H || TRANSFORM == FLIP_V;
}
bool is_blur() { return TRANSFORM == BLUR || TRANSFORM == SHARPEN; }
// What is a weighted mean along x in the first stage, and along y in the second.
bool is_mean() { return is_blur() || TRANSFORM == PIXELATE; }
// Whether x0 is what the first stage has made of a preview's channel.
bool is_alone() { return ONE_CHANNEL >= 0 && u_stage == 1; }
bool is_morphology() { return TRANSFORM == ERODE || TRANSFORM == DILATE; }

// Cosine and sine of an angle in degrees; exact for quarter turns, and as exact as float32 elsewhere, which the
// built-in ones need not be.
vec2 turn(float degrees) {
  float quarters = floor(degrees / 90.0 + 0.5), r = radians(degrees - 90.0 * quarters), s = r * r;
  float sine = r * (1.0 - s / 6.0 * (1.0 - s / 20.0 * (1.0 - s / 42.0 * (1.0 - s / 72.0))));
  float cosine = 1.0 - s / 2.0 * (1.0 - s / 12.0 * (1.0 - s / 30.0 * (1.0 - s / 56.0)));
  int k = int(quarters) & 3;
  return k < 2 ? (k == 0 ? vec2(cosine, sine) : vec2(-sine, cosine))
               : (k == 2 ? vec2(-cosine, -sine) : vec2(sine, -cosine));
}

// Where an affine transform's pixel comes from, (x, y) in pixels.
vec2 origin_of(vec2 at) {
  vec2 size = vec2(u_shown.wz), middle = (size - 1.0) / 2.0, d = at - middle;
  if (TRANSFORM == TRANSLATE) return at - vec2(P0, P1) * size;
  if (TRANSFORM == SCALE) return middle + d / P0;
  if (TRANSFORM == FLIP_H) return vec2(size.x - 1.0 - at.x, at.y);
  if (TRANSFORM == FLIP_V) return vec2(at.x, size.y - 1.0 - at.y);
  vec2 t = turn(P0);
  return middle + vec2(t.x * d.x - t.y * d.y, t.y * d.x + t.x * d.y);
}

// Whether an offset lies in the ellipse of OpenCV's getStructuringElement(MORPH_ELLIPSE, (2 r + 1, 2 r + 1)).
bool in_ellipse(int dy, int dx, int r) {
  return abs(dx) <= int(sqrt(float(r * r - dy * dy)) + 0.5);
}

// Numbers that look random, from 0 to 2^32 - 1 (PCG's output function, Jarzynski and Olano 2020).
uint scrambled(uint v) {
  uint s = v * 747796405u + 2891336453u, w = ((s >> ((s >> 28u) + 4u)) ^ s) * 277803737u;
  return (w >> 22u) ^ w;
}

uint seeded(int index, int seed) { return scrambled(uint(index) ^ scrambled(uint(seed))); }
// From 0 to 1, exact: 23 bits and a half.
float uniform_of(uint word) { return (float(word >> 9u) + 0.5) / 8388608.0; }

// Nearly normal, of mean 0 and deviation 1: twelve uniform numbers added (Irwin-Hall), which every device does alike.
float noise_at(int index, int seed) {
  uint state = seeded(index, seed);
  float sum = 0.0;
  for (int k = 0; k < 12; k++) {
    sum += uniform_of(state);
    state = scrambled(state);
  }
  return sum - 6.0;
}

// A random number for a pixel of an example, whatever the channel.
float salted(float x, int n, int y, int xx) {
  float drawn = uniform_of(seeded((n * u_shown.z + y) * u_shown.w + xx, int(P1)));
  return drawn < P0 / 2.0 ? 0.0 : drawn < P0 ? 1.0 : x;
}

// Whether a square of P2 pixels around P0 widths and P1 heights has a pixel. Where its edge falls on the middle of one,
// up to rounding, all devices go one way.
bool is_covered(int y, int x) {
  vec2 corner = floor(vec2(P0, P1) * vec2(u_shown.wz) - P2 / 2.0 + 0.5 + 1.0 / 1024.0), at = vec2(x, y);
  return all(greaterThanEqual(at, corner)) && all(lessThan(at, corner + P2));
}

int place_of(int n, int c, int y, int x) { return ((n * u_shown.y + c) * u_shown.z + y) * u_shown.w + x; }

// Four channels from c on, or with RESHAPED one.
vec4 read(int n, int c, int y, int x) {
#ifdef RESHAPED
  return vec4(flat_element(x0, u.x[0], is_alone() ? y * u_shown.w + x : place_of(n, c, y, x)), 0.0, 0.0, 0.0);
#else
  vec4 v = texel(x0, u.x[0], is_alone() ? ivec4(0, 0, y, x) : ivec4(n, c >> 2, y, x));
  return ONE_CHANNEL < 0 ? v : vec4(lane(v, is_alone() ? 0 : c & 3), 0.0, 0.0, 0.0);
#endif
}

vec4 before(int n, int c, int y, int x) {
#ifdef RESHAPED
  return vec4(flat_element(x1, u.x[1], place_of(n, c, y, x)), 0.0, 0.0, 0.0);
#else
  vec4 v = texel(x1, u.x[1], ivec4(n, c >> 2, y, x));
  return ONE_CHANNEL < 0 ? v : vec4(lane(v, ONE_CHANNEL & 3), 0.0, 0.0, 0.0);
#endif
}

vec4 in_table(int c) {
  int width = textureSize(table, 0).x, g = c >> 2;
  return fetch(table, ivec3(g - quotient(g, width) * width, quotient(g, width), 0));
}

float in_array(int n, int place, int y, int x) {
  int index = ((n * u_injected + place) * u_shown.z + y) * u_shown.w + x, width = textureSize(array, 0).x, t = index >> 2;
  return lane(fetch(array, ivec3(t - quotient(t, width) * width, quotient(t, width), 0)), index & 3);
}

#ifdef CUSTOM
float custom(float x, int example, int channel, int row, int column);
#endif

// What becomes of one number; x is the sum, the least or the greatest of what was read, the grey of a colour.
float of_one(float x, float old, int n, int c, int y, int xx) {
  if (TRANSFORM == ABLATE) return 0.0;
  if (TRANSFORM == INVERT) return 1.0 - x;
  if (TRANSFORM == MULTIPLY) return x * P0;
  if (TRANSFORM == ADD) return x + P0;
  // A NaN stays, told by its bits: some compilers make min and max of the comparisons, which drop it.
  if (TRANSFORM == CLAMP && (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u) return x;
  if (TRANSFORM == CLAMP) return x < P0 ? P0 : x > P1 ? P1 : x;
  if (TRANSFORM == THRESHOLD) return x > P0 ? 1.0 : 0.0;
  if (TRANSFORM == CONTRAST) return 0.5 + P0 * (x - 0.5);
  if (TRANSFORM == SATURATION) return c > 2 ? old : x + P0 * (old - x);
  if (TRANSFORM == SALT_AND_PEPPER) return salted(x, n, y, xx);
  if (TRANSFORM == OCCLUDE) return is_covered(y, xx) ? P3 : x;
  if (TRANSFORM == NOISE) return x + P0 * noise_at(place_of(n, c, y, xx), int(P1));
  if (TRANSFORM == SHARPEN && u_stage == 1) return old + P0 * (old - x);
  if (TRANSFORM == DIFFERENCE) return x - old;
#ifdef CUSTOM
  if (TRANSFORM == GLSL) return custom(x, n, c, y, xx);
#endif
  return x;
}

// Four channels from c on (with RESHAPED one) of one pixel. One read in one loop for all transforms: calls are inlined,
// and each copy of the index arithmetic takes long to compile.
vec4 bent(int n, int c, int y, int x) {
  if (n >= u_shown.x || y >= u_shown.z || x >= u_shown.w) return vec4(0.0);  // of a block that the map ends in
  int radius = 0, taps = 1, block = TRANSFORM == PIXELATE ? int(P0) : 1;
  float sigma = TRANSFORM == SHARPEN ? P1 : P0;
  vec2 from = vec2(0.0);
  if (is_blur()) {
    radius = int(4.0 * sigma + 0.5);
    taps = 2 * radius + 1;
  } else if (is_morphology()) {
    radius = int(P0);
    taps = (2 * radius + 1) * (2 * radius + 1);
  } else if (TRANSFORM == PIXELATE) {
    taps = block;
  } else if (TRANSFORM == EDGES) {
    taps = 9;
  } else if (TRANSFORM == SATURATION) {
    taps = 3;
  } else if (is_affine()) {
    taps = 4;
    from = clamp(origin_of(vec2(x, y)), vec2(-2.0), vec2(u_shown.wz) + 1.0);
  }
  ivec2 corner = ivec2(floor(from));
  vec2 part = from - vec2(corner);
  vec4 found = vec4(0.0), down = vec4(0.0);
  float weights = 0.0;
  bool any_read = false;
  for (int k = 0; k < taps; k++) {
    ivec2 at = ivec2(x, y);
    float weight = 1.0, below = 0.0;
    int from_channel = c;
    if (is_blur()) {
      float d = float(k - radius);
      weight = exp(-0.5 * d * d / (sigma * sigma));
      at += u_stage == 0 ? ivec2(k - radius, 0) : ivec2(0, k - radius);
      at = clamp(at, ivec2(0), u_shown.wz - 1);
    } else if (is_morphology()) {
      ivec2 d = ivec2(k % (2 * radius + 1), k / (2 * radius + 1)) - radius;
      if (!in_ellipse(d.y, d.x, radius)) continue;
      at += d;
    } else if (TRANSFORM == PIXELATE) {
      at = u_stage == 0 ? ivec2(x / block * block + k, y) : ivec2(x, y / block * block + k);
    } else if (TRANSFORM == EDGES) {
      ivec2 d = ivec2(k % 3, k / 3) - 1;
      at = clamp(at + d, ivec2(0), u_shown.wz - 1);
      weight = float(d.x * (2 - abs(d.y)));
      below = float(d.y * (2 - abs(d.x)));
    } else if (TRANSFORM == SATURATION) {
      from_channel = k;
      weight = k == 0 ? 0.299 : k == 1 ? 0.587 : 0.114;
    } else if (is_affine()) {
      at = corner + ivec2(k & 1, k >> 1);
      weight = ((k & 1) == 1 ? part.x : 1.0 - part.x) * (k > 1 ? part.y : 1.0 - part.y);
      if (weight == 0.0) continue;
    }
    if (any(lessThan(at, ivec2(0))) || any(greaterThanEqual(at, u_shown.wz))) continue;
    vec4 v = read(n, from_channel, at.y, at.x);
#ifndef RESHAPED
    if (TRANSFORM == SATURATION && ONE_CHANNEL < 0) v = vec4(lane(v, k));
#else
    if (TRANSFORM == SATURATION) v = vec4(v.x);
#endif
    if (is_morphology()) {
      found = !any_read ? v : TRANSFORM == ERODE ? min(found, v) : max(found, v);
    } else if (is_mean() || is_affine() || TRANSFORM == EDGES || TRANSFORM == SATURATION) {
      found += weight * v;
      if (TRANSFORM == EDGES) down += below * v;
    } else {
      found = v;
    }
    weights += weight;
    any_read = true;
  }
  if (TRANSFORM == EDGES) found = sqrt(found * found + down * down) / 4.0;
  if (is_mean()) found /= weights;
  if (is_mean() && u_stage == 0) return found;
  vec4 old = before(n, c, y, x), selected = ONE_CHANNEL < 0 ? in_table(c) : vec4(1.0);
#ifdef RESHAPED
  selected = vec4(lane(selected, c & 3), 0.0, 0.0, 0.0);
#endif
  for (int k = 0; k < 4; k++) {
    float value = lane(old, k), chosen = lane(selected, k), made = value;
    if (chosen > 0.0) {
      made = TRANSFORM == INJECT ? in_array(n, int(chosen) - 1, y, x)
                                 : of_one(lane(found, k), value, n, c + k, y, x);
      if (u_mix < 1.0) made = value * (1.0 - u_mix) + made * u_mix;
    }
    if (k == 0) found.x = made; else if (k == 1) found.y = made; else if (k == 2) found.z = made; else found.w = made;
#ifdef RESHAPED
    break;
#endif
  }
  return found;
}

vec4 pixel(ivec4 at) {
  if (ONE_CHANNEL >= 0) return bent(u_one_example, ONE_CHANNEL, at.z, at.w);
#ifdef RESHAPED
  int lanes = min(u.o.nchw.y - at.y * 4, 4);
  vec4 v = vec4(0.0);
  ivec2 last = u.o.nchw.zw - 1;
  for (int k = 0; k < lanes; k++) {
    int n = min(at.x, u.o.nchw.x - 1), y = min(at.z, last.x), x = min(at.w, last.y);
    int index = ((n * u.o.nchw.y + at.y * 4 + k) * u.o.nchw.z + y) * u.o.nchw.w + x;
    ivec4 shown = unravel(u_shown, index);
    float e = bent(shown.x, shown.y, shown.z, shown.w).x;
    if (k == 0) v.x = e; else if (k == 1) v.y = e; else if (k == 2) v.z = e; else v.w = e;
  }
  return v;
#else
  return bent(at.x, at.y * 4, at.z, at.w);
#endif
}

void main() {
  ivec4 base = origin();
  for (int k = 0; k < u.o.block.x * u.o.block.y * u.o.block.z; k++) {
    int dx = k % u.o.block.z, row = k / u.o.block.z, dy = row % u.o.block.y, dn = row / u.o.block.y;
    ivec4 at = base + ivec4(dn, 0, dy * u.o.phase.x, dx * u.o.phase.y);
    vec4 v = vec4(0.0);
    if (base.x >= 0) v = keep(pixel(at), base.y);
    if (k == 0) o0 = v;
#if LAYERS > 1
    if (k == 1) o1 = v;
#endif
#if LAYERS > 2
    if (k == 2) o2 = v;
    if (k == 3) o3 = v;
#endif
  }
}
