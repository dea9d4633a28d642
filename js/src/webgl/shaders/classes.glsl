// One canvas pixel of a picture of classes: the colour of the channel with the largest value, the first one of equals.
// Of one channel alone its value is the class's number. `table` has a texel for each channel beside each other.
void main() {
  vec2 p = abs(gl_FragCoord.xy - corner.xy); // pictures begin at the top, wherever that is
  float best = 0.0, found = -1.0;
  uint largest = 0u;
  for (int k = 0; k < u_channels; k++) {
    vec4 tile = FETCH(table, vec3(vec2(float(k), 0.0) * over_table.xy + corner.zw, over_table.z));
    uint bits = bits_of(READ(p, tile.xyz + row(p.y) + column(p.x)), lane_of(tile.w));
    float v = uintBitsToFloat(bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) largest = bits & 0x7fffffffu;
    else if (found < 0.0 || v > best) {
      best = v;
      found = float(k);
    }
  }
  if (u_channels == 1) found = best;
  float colours = float(u_colours);
  float which = found - floor((found + 0.5) / colours) * colours;
  vec2 shade = marked(vec2((which + 0.5) / 512.0, float(u_colours_layer)), p, largest);
  o0 = FETCH(maps, vec3(shade.x, 0.5, shade.y));
}
