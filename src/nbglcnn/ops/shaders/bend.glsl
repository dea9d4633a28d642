// One bend of a value. A program is for one transform, whose number is defined then, and for any layer; that of the
// page's previews has all of them and a uniform for the number. features/edits/shader.py puts the texts of the
// transforms' records (features/edits/transforms.py) where FUNCTIONS, ELEMENTS, BEGIN, TAP, FOLD and END stand.
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

// Whether x0 is what the first stage has made of a preview's channel.
bool is_alone() { return ONE_CHANNEL >= 0 && u_stage == 1; }

int place_of(int n, int c, int y, int x) { return ((n * u_shown.y + c) * u_shown.z + y) * u_shown.w + x; }

FUNCTIONS

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
float of_one(float x, float old, int example, int channel, int row, int column) {
  if (TRANSFORM == DIFFERENCE) return x - old;
#ifdef CUSTOM
  if (TRANSFORM == GLSL) return custom(x, example, channel, row, column);
#endif
ELEMENTS
  return x;
}

// Four channels from c on (with RESHAPED one) of one pixel. One read in one loop for all transforms: calls are inlined,
// and each copy of the index arithmetic takes long to compile.
vec4 bent(int n, int c, int y, int x) {
  if (n >= u_shown.x || y >= u_shown.z || x >= u_shown.w) return vec4(0.0);  // of a block that the map ends in
  int taps = 1, radius = 0;
  float sigma = 0.0;
  vec2 from = vec2(0.0);
BEGIN
  from = clamp(from, vec2(-2.0), vec2(u_shown.wz) + 1.0);
  ivec2 corner = ivec2(floor(from));
  vec2 part = from - vec2(corner);
  vec4 found = vec4(0.0), second = vec4(0.0);
  float weights = 0.0;
  bool any_read = false;
  for (int k = 0; k < taps; k++) {
    ivec2 at = ivec2(x, y);
    float weight = 1.0;
    int from_channel = c;
TAP
    if (any(lessThan(at, ivec2(0))) || any(greaterThanEqual(at, u_shown.wz))) continue;
    vec4 v = read(n, from_channel, at.y, at.x);
FOLD
    else found = v;
    weights += weight;
    any_read = true;
  }
END
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
