// The colour of one canvas pixel of a map. PLAIN: one read a pixel. BY_CHANNEL: each map has its own range.
// Loops and what is not read cost: so many programs.
void main() {
  vec2 p = abs(gl_FragCoord.xy - corner.xy); // pictures begin at the top, wherever that is
  vec2 map = floor(p * cells.zw);
  p -= map * cells.xy;
  vec4 tile = FETCH(table, vec3(map * over_table.xy + corner.zw, over_table.z));
  uvec4 lane_bits = lane_of(tile.w);
#ifdef PLAIN
  uint bits = bits_of(READ(p, tile.xyz + row(p.y) + column(p.x)), lane_bits), largest = bits & 0x7fffffffu;
  float v = uintBitsToFloat(bits);
#else
  // Mean over the map's pixels under this one. `largest` gets their largest magnitude as bits: infinity's come after
  // all finite values', NaN's after those.
  float share = 1.0 / float(u_taps), v = 0.0;
  uint largest = 0u;
  vec2 first = p - 0.5 + 0.5 * share;
  for (int y = 0; y < u_taps; y++) {
    vec3 line = tile.xyz + row(first.y + float(y) * share);
    for (int x = 0; x < u_taps; x++) {
      vec4 four = READ(vec2(float(x), float(y)) * share + first, line + column(first.x + float(x) * share));
      uint bits = bits_of(four, lane_bits);
      largest = max(largest, bits & 0x7fffffffu);
      v += uintBitsToFloat(bits) * (share * share);
    }
  }
#endif
#ifdef BY_CHANNEL
  vec2 range = channel_range(tile.w);
#else
  vec2 range = shared_ends;
#endif
  float t = clamp((v * 0.5 - range.x) / range.y, 0.0, 1.0);
  vec2 shade = vec2(t * shades.x + shades.y, shades.z);
  shade = marked(shade, p, largest);
  shade = tile.w < 0.0 || max(p.x - size.x, p.y - size.y) > 0.0 ? vec2(NONE, shades.w) : shade;
  o0 = FETCH(maps, vec3(shade.x, 0.5, shade.y));
}
