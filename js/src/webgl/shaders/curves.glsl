// One canvas pixel of a curve: the channel's values along the picture, above and below a line at zero.
// A column of pixels shows all values that it covers, from the least to the greatest; between two values the curve is
// straight. Of more than MOST values a pixel some are left out.
const float MOST = 512.0;
const float POSITIVE = 440.5 / 512.0, NEGATIVE = 72.5 / 512.0, ZERO = 256.5 / 512.0;

uint bits_at(float k, vec4 tile, uvec4 lane_bits) {
  k = clamp(k, 0.0, float(u_values) - 1.0) + 0.5;
  vec2 at = u_vertical == 0 ? vec2(k / columns.x, 0.5) : vec2(0.5, k / rows.x);
  return bits_of(READ(at, tile.xyz + row(at.y) + column(at.x)), lane_bits);
}

void main() {
  vec2 p = abs(gl_FragCoord.xy - corner.xy); // pictures begin at the top, wherever that is
  vec2 map = floor(p * cells.zw);
  p -= map * cells.xy;
  vec4 tile = FETCH(table, vec3(map * over_table.xy + corner.zw, over_table.z));
  uvec4 lane_bits = lane_of(tile.w);
  vec2 range = u_range == 0 ? channel_range(tile.w) : shared_ends;
  // The values that this column shows, and the curve's ends at its left and right.
  float each = float(u_values) / size.x, from = floor(p.x) * each - 0.5, to = from + each;
  float stride = max(1.0, ceil(each / MOST)), k = floor(from), low = BIG, high = -BIG;
  uint bits = bits_at(k, tile, lane_bits), largest = 0u;
  float before = uintBitsToFloat(bits);
  for (; k < to; k += stride) {
    if (k >= from) largest = max(largest, bits & 0x7fffffffu);
    bits = bits_at(k + stride, tile, lane_bits);
    float after = uintBitsToFloat(bits), over_stride = 1.0 / stride;
    float a = mix(before, after, clamp((from - k) * over_stride, 0.0, 1.0));
    float b = mix(before, after, clamp((to - k) * over_stride, 0.0, 1.0));
    low = min(low, min(a, b));
    high = max(high, max(a, b));
    before = after;
  }
  // Of a curve with few values the nearest one, so that a single NaN is as wide as its place.
  if (each <= 1.0) largest = bits_at(floor((p.x / size.x) * float(u_values)), tile, lane_bits) & 0x7fffffffu;
  float inner = size.y - 3.0, zero = clamp(-range.x / range.y, 0.0, 1.0);
  vec3 t = vec3(clamp((vec2(low, high) * 0.5 - range.x) / range.y, 0.0, 1.0), zero);
  vec3 y = 1.5 + (1.0 - t) * inner; // of the least, the greatest, zero
  float off = max(y.y - p.y, p.y - y.x), line = clamp(float(u_thickness) * 0.01 + 0.5 - off, 0.0, 1.0);
  float filled = max(min(y.y, y.z) - p.y, p.y - max(y.x, y.z)) < 0.0 ? 0.2 : 0.0;
  vec4 ground = FETCH(maps, vec3(ZERO, 0.5, shades.z));
  vec4 grey = vec4(vec3(0.5), 1.0);
  bool positive = low >= 0.0 || (high > 0.0 && p.y < y.z);
  vec4 ink = FETCH(maps, vec3(positive ? POSITIVE : NEGATIVE, 0.5, shades.z));
  if (low == 0.0 && high == 0.0) ink = mix(ground, grey, 0.7);
  vec4 colour = mix(ground, ink, filled);
  // The line at zero is what the map has at its middle, half way to grey.
  if (abs(p.y - y.z) < 0.5) colour = mix(colour, grey, 0.5);
  colour = mix(colour, ink, line);
  vec2 shade = marked(vec2(-1.0), p, largest);
  if (tile.w < 0.0 || max(p.x - size.x, p.y - size.y) > 0.0) shade = vec2(NONE, shades.w);
  o0 = shade.x < 0.0 ? colour : FETCH(maps, vec3(shade.x, 0.5, shade.y));
}
