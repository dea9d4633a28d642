// The colour of one canvas pixel of a map.
flat in ivec4 tile;   // the tile's first column and row, its first layer, the channel's lane
flat in ivec2 corner; // of the map in the canvas
flat in vec2 range;   // lowest and highest value
layout(location = 0) out vec4 o0;

const vec4 MAGENTA = vec4(1.0, 0.0, 1.0, 1.0);

// address() of the prelude for one channel, in floats: they are exact here, and integers divide slowly.
float value_at(vec2 p) {
  vec2 q = floor((p + 0.5) * u.f[1].xy);
  vec2 t = floor((q + 0.5) * u.f[1].zw);
  vec2 phase = p - q * vec2(u.x[0].phase.yx), block = q - t * vec2(u.x[0].block.zy);
  vec2 at = vec2(tile.xy) + t + phase * vec2(u.x[0].phase.zw) + 0.5;
  float layer = float(tile.z) + block.y * float(u.x[0].block.z) + block.x;
  return lane(FETCH(x0, vec3(at / vec2(textureSize(x0, 0).xy), layer)), tile.w);
}

// Mean over the map pixels under a canvas pixel, at most 4 x 4 of them; a NaN or infinity among them shows.
float mean_at(vec2 p, int taps) {
  float sum = 0.0, odd = 0.0, share = 1.0 / float(taps * taps);
  bool any_odd = false;
  vec2 last = vec2(u.x[0].frame.wz) - 1.0;
  for (int y = 0; y < taps; y++) {
    for (int x = 0; x < taps; x++) {
      vec2 at = (p + (vec2(x, y) + 0.5) / float(taps)) * u.f[0].xy;
      float v = value_at(min(floor(at), last));
      if (is_nan(v) || (is_inf(v) && !any_odd)) {
        odd = v;
        any_odd = true;
      } else {
        sum += v * share;
      }
    }
  }
  return any_odd ? odd : sum;
}

void main() {
  ivec2 p = ivec2(gl_FragCoord.xy) - corner;
  p.y = u.i[1].y - 1 - p.y;
  float v = u.i[1].w == 1 ? value_at(floor((vec2(p) + 0.5) * u.f[0].xy)) : mean_at(vec2(p), u.i[1].w);
  if (is_inf(v)) {
    o0 = MAGENTA;
  } else if (is_nan(v)) {
    o0 = (p.x + p.y) % 3 == 0 ? vec4(0.0, 0.0, 0.0, 1.0) : MAGENTA;
  } else if (u.i[3].y == 0) {
    // Texel 256 is zero, 1 and 511 are the ends.
    float t = range.y > 0.0 ? clamp(v / range.y, -1.0, 1.0) : 0.0;
    o0 = fetch(maps, ivec3(256 + int(round(t * 255.0)), 0, u.i[3].z));
  } else {
    // Halves, since the highest minus the lowest may overflow.
    float width = range.y * 0.5 - range.x * 0.5;
    float t = width > 0.0 ? clamp((v * 0.5 - range.x * 0.5) / width, 0.0, 1.0) : 0.0;
    o0 = u.i[3].z < 0 ? vec4(vec3(t), 1.0) : fetch(maps, ivec3(int(round(t * 511.0)), 0, u.i[3].z));
  }
}
