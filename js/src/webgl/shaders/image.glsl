// One canvas pixel of an image: one channel in grey, or three as red, green and blue, each in its own texel of `table`; a
// fourth is the alpha. What is clipped is marked by dots of ink, white on what is too dark and black on what is too light.
void main() {
  vec2 p = abs(gl_FragCoord.xy - corner.xy); // pictures begin at the top, wherever that is
  vec2 map = floor(p * cells.zw);
  p -= map * cells.xy;
  float share = 1.0 / float(u_taps);
  vec2 first = p - 0.5 + 0.5 * share;
  vec3 colour = vec3(0.0);
  bool above = false, below = false, outside = max(p.x - size.x, p.y - size.y) > 0.0;
  uint largest = 0u;
  for (int k = 0; k < u_channels; k++) {
    vec4 tile = FETCH(table, vec3((map + vec2(float(k), 0.0)) * over_table.xy + corner.zw, over_table.z));
    uvec4 lane_bits = lane_of(tile.w);
    float v = 0.0;
    for (int y = 0; y < u_taps; y++) {
      vec3 line = tile.xyz + row(first.y + float(y) * share);
      for (int x = 0; x < u_taps; x++) {
        vec4 four = READ(vec2(float(x), float(y)) * share + first, line + column(first.x + float(x) * share));
        uint bits = bits_of(four, lane_bits);
        largest = max(largest, bits & 0x7fffffffu);
        v += uintBitsToFloat(bits) * (share * share);
      }
    }
    outside = outside || (k == 0 && tile.w < 0.0);
    if (tile.w < 0.0) continue; // a colour that it doesn't have is black
    float t = clamp((v * 0.5 - shared_ends.x) / shared_ends.y, 0.0, 1.0);
    if (k == 3) {
      colour *= t; // the alpha of a picture, which stands in front of black
      continue;
    }
    float light = FETCH(maps, vec3(t * shades.x + shades.y, 0.5, shades.z)).x;
    if (u_channels == 1) colour = vec3(light);
    else colour[k] = light;
    below = below || v < clipped.x;
    above = above || v > clipped.y;
  }
  vec2 dot_at = floor(p);
  float diagonal = (dot_at.x + dot_at.y * 0.5) * 0.25, line = dot_at.y * 0.25;
  bool marks = diagonal - floor(diagonal) < 0.125 && line - floor(line) < 0.125;
  if (marks && below) colour = vec3(1.0);
  if (marks && above) colour = vec3(0.0);
  vec2 shade = marked(vec2(-1.0), p, largest);
  shade = outside ? vec2(NONE, shades.w) : shade;
  o0 = shade.x < 0.0 ? vec4(colour, 1.0) : FETCH(maps, vec3(shade.x, 0.5, shade.y));
}
