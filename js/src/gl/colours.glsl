// The colour of one canvas pixel. Whole numbers are floats here, in which they are exact: processors divide and
// round them faster. For the same reason nothing branches, and what is the same for a map's pixels comes from `table`:
// column, row (over the texture's size) and layer of its first texel, and its channel, -1 where there is no map.
// PLAIN: one read a pixel. BY_CHANNEL: each map has its own range. Loops and what is not read cost: three programs.
flat in vec2 shared_ends;
layout(location = 0) out vec4 o0;

const vec4 MAGENTA = vec4(1.0, 0.0, 1.0, 1.0);

// address() of the prelude for a column or row of the map: its texel, and its part of the layer's number.
vec2 along(float r, vec2 over_one, float phases, float area, float pixels, float weight) {
  float q = floor((r + 0.5) * over_one.x), t = floor((q + 0.5) * over_one.y);
  return vec2(t + (r - q * phases) * area, (q - t * pixels) * weight);
}

// What leads from a map's first texel to the one in the column or row that is `p` canvas pixels from its edge.
vec3 column(float p) {
  Layout l = u.x[0];
  float c = min(floor(p * u.f[1].x), float(l.frame.w - 1));
  vec2 at = along(c, u.f[2].xz, float(l.phase.y), float(l.phase.z), float(l.block.z), 1.0);
  return vec3(at.x * u.f[3].x, 0.0, at.y);
}
vec3 row(float p) {
  Layout l = u.x[0];
  float r = min(floor(p * u.f[1].y), float(l.frame.z - 1));
  vec2 at = along(r, u.f[2].yw, float(l.phase.x), float(l.phase.w), float(l.block.y), float(l.block.z));
  return vec3(0.0, at.x * u.f[3].y, at.y);
}

// One lane's bits; the others are zeros. A multiplication with a 0/1 vector would let a NaN through.
uint bits_of(vec4 four, uvec4 lane) {
  uvec4 bits = floatBitsToUint(four) & lane;
  return bits.x | bits.y | bits.z | bits.w;
}

void main() {
  vec2 cell = vec2(u.i[1].xy), size = vec2(u.i[1].zw);
  vec2 p = (gl_FragCoord.xy - vec2(u.i[0].xy)) * vec2(1.0, -1.0); // pictures begin at the top
  vec2 map = floor(p * u.f[0].xy);
  p -= map * cell;
  vec4 tile = FETCH(table, vec3((map + vec2(u.i[0].zw) + 0.5) * u.f[0].zw, float(u.i[2].z)));
  float group = floor(tile.w * 0.25);
  uvec4 lane_bits = uvec4(-ivec4(equal(vec4(tile.w - group * 4.0), vec4(0.0, 1.0, 2.0, 3.0))));
#ifdef PLAIN
  uint bits = bits_of(FETCH(x0, tile.xyz + row(p.y) + column(p.x)), lane_bits), largest = bits & 0x7fffffffu;
  float v = uintBitsToFloat(bits);
#else
  // Mean over the map's pixels under this one. `largest` gets their largest magnitude as bits: infinity's come after
  // all finite values', NaN's after those.
  float share = 1.0 / float(u.i[2].y), v = 0.0;
  uint largest = 0u;
  vec2 first = p - 0.5 + 0.5 * share;
  for (int y = 0; y < u.i[2].y; y++) {
    vec3 line = tile.xyz + row(first.y + float(y) * share);
    for (int x = 0; x < u.i[2].y; x++) {
      uint bits = bits_of(FETCH(x0, line + column(first.x + float(x) * share)), lane_bits);
      largest = max(largest, bits & 0x7fffffffu);
      v += uintBitsToFloat(bits) * (share * share);
    }
  }
#endif
#ifdef BY_CHANNEL
  int g = u.i[4].x + max(int(group), 0), line_of = over(g, u.i[4].y), c = int(tile.w - group * 4.0);
  ivec2 at = ivec2(g - line_of * u.i[4].y, line_of);
  vec2 range = ends(lane(fetch(ranges, ivec3(at, 0)), c), lane(fetch(ranges, ivec3(at, 1)), c));
#else
  vec2 range = shared_ends;
#endif
  float t = clamp((v * 0.5 - range.x) / range.y, 0.0, 1.0);
  bool odd = largest >= 0x7f800000u;
  // Of a signed map texel 256 is zero, 1 and 511 are the ends.
  float texel = u.i[3].y == 0 ? 1.0 + t * 510.0 : t * 511.0;
  vec4 colour = FETCH(maps, vec3((odd ? 0.5 : floor(texel + 0.5) + 0.5) / 512.0, 0.5, float(max(u.i[2].x, 0))));
  float diagonal = (p.x + p.y) / 3.0;
  float black = largest > 0x7f800000u && diagonal - floor(diagonal) < 0.5 / 3.0 ? 0.0 : 1.0;
  vec4 shown = u.i[2].x < 0 ? vec4(vec3(t), 1.0) : colour;
  shown = odd ? vec4(black, 0.0, black, 1.0) : shown;
  o0 = tile.w < 0.0 || max(p.x - size.x, p.y - size.y) > 0.0 ? vec4(0.0) : shown;
}
