// unflatten.glsl for blocks of 2×2 in rows of even length: both pixels of a block's row lie in one staging texel.

vec2 pair(int index, vec2 unit) {
  int texel = index >> 2, line = quotient(texel, u_width);
  vec4 v = FETCH(x0, vec3((vec2(texel - line * u_width, line) + 0.5) * unit, 0.0));
  return (index & 2) == 0 ? v.xy : v.zw;
}

#define CHANNEL(k, lane) \
  if (k < channels) { \
    vec2 top = pair(index + k * step, unit), bottom = pair(index + k * step + below, unit); \
    o0.lane = top.x; o1.lane = top.y; o2.lane = bottom.x; o3.lane = bottom.y; }

void main() {
  ivec4 at = origin();
  o0 = o1 = o2 = o3 = vec4(0.0);
  vec2 unit = 1.0 / vec2(textureSize(x0, 0).xy);
  int channels = at.x < 0 ? 0 : u.o.nchw.y - 4 * at.y, step = u.o.nchw.z * u.o.nchw.w;
  int index = ((at.x * u.o.nchw.y + 4 * at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int below = at.z + 1 < u.o.nchw.z ? u.o.nchw.w : 0;
  CHANNEL(0, x) CHANNEL(1, y) CHANNEL(2, z) CHANNEL(3, w)
}
