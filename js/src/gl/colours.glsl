// The colour of one canvas pixel of a map.
flat in ivec4 tile;   // the tile's first column and row, its first layer, the channel's lane
flat in ivec2 corner; // of the map in the canvas
flat in vec2 range;   // lowest and highest value
layout(location = 0) out vec4 o0;

const vec4 MAGENTA = vec4(1.0, 0.0, 1.0, 1.0);

// address() of the prelude for a column or row of the map, in floats: they are exact here, and integers divide slowly.
// Its texel, and its part of the layer's number.
vec2 along(float r, vec2 over_one, float phases, float area, float pixels, float weight) {
  float q = floor((r + 0.5) * over_one.x), t = floor((q + 0.5) * over_one.y);
  return vec2(t + (r - q * phases) * area, (q - t * pixels) * weight);
}

// Mean over the map pixels under a canvas pixel, at most 4 x 4 of them. `largest` gets their largest magnitude as
// bits: infinity's come after all finite values', NaN's after those. No branch: processors would take both sides.
float mean_at(vec2 p, int taps, out uint largest) {
  Layout l = u.x[0];
  float sum = 0.0, share = 1.0 / float(taps), part = share * share;
  vec2 scale = 1.0 / vec2(textureSize(x0, 0).xy), last = vec2(l.frame.wz) - 1.0;
  vec4 phase = vec4(l.phase);
  vec3 block = vec3(l.block);
  vec3 first = vec3((vec2(tile.xy) + 0.5) * scale, float(tile.z));
  largest = 0u;
  for (int y = 0; y < taps; y++) {
    float r = min(floor((p.y + (float(y) + 0.5) * share) * u.f[0].y), last.y);
    vec2 row = along(r, u.f[1].yw, phase.x, phase.w, block.y, block.z);
    vec3 from = first + vec3(0.0, row.x * scale.y, row.y);
    for (int x = 0; x < taps; x++) {
      float c = min(floor((p.x + (float(x) + 0.5) * share) * u.f[0].x), last.x);
      vec2 column = along(c, u.f[1].xz, phase.y, phase.z, block.z, 1.0);
      float v = lane(FETCH(x0, from + vec3(column.x * scale.x, 0.0, column.y)), tile.w);
      largest = max(largest, floatBitsToUint(v) & 0x7fffffffu);
      sum += v * part;
    }
  }
  return sum;
}

void main() {
  ivec2 p = ivec2(gl_FragCoord.xy) - corner;
  p.y = u.i[1].y - 1 - p.y;
  uint largest;
  float v = mean_at(vec2(p), u.i[1].w, largest);
  // Halves, since the highest minus the lowest may overflow.
  float width = range.y * 0.5 - range.x * 0.5;
  float t = width > 0.0 ? clamp((v * 0.5 - range.x * 0.5) / width, 0.0, 1.0) : 0.0;
  // Texel 256 is zero, 1 and 511 are the ends.
  float s = range.y > 0.0 ? clamp(v / range.y, -1.0, 1.0) : 0.0;
  bool odd = largest >= 0x7f800000u;
  int texel = odd ? 0 : u.i[3].y == 0 ? 256 + int(round(s * 255.0)) : int(round(t * 511.0));
  vec4 colour = fetch(maps, ivec3(texel, 0, max(u.i[3].z, 0)));
  int diagonal = p.x + p.y;
  bool black = largest > 0x7f800000u && over(diagonal, 3) * 3 == diagonal;
  vec4 shown = u.i[3].z < 0 ? vec4(vec3(t), 1.0) : colour;
  o0 = odd ? (black ? vec4(0.0, 0.0, 0.0, 1.0) : MAGENTA) : shown;
}
