// A mosaic of maps in the colours of a colour map.
// i[0]: image, columns, number of maps, what is drawn (0 maps, 1 grey, 2 rgb)
// i[1]: width and height of a drawn map, the gap beside it, reads a pixel along each axis
// i[2]: left and bottom of the picture in the canvas, its width and height
// i[3]: range (0 channel, 1 layer, 2 fixed), symmetric around zero, colour map's layer (0 and 1: signed), first of the maps that `channels` lists
// i[4]: the value's first row in `ranges` and how wide that is; its column and row in `shared_ranges`
// f[0]: map pixels a canvas pixel in x and y, lowest and highest value of a fixed range
// f[1].x: 1 over the reads a pixel
layout(location = 0) out vec4 o0;
layout(std140) uniform Channels { ivec4 list[64]; } channels;

const vec4 MAGENTA = vec4(1.0, 0.0, 1.0, 1.0);

vec2 range_of(int c) {
  if (u.i[3].x == 2) return u.f[0].zw;
  int g = c >> 2;
  if (u.i[3].x == 0) {
    ivec2 at = ivec2(g % u.i[4].y, u.i[4].x + g / u.i[4].y);
    return vec2(lane(fetch(ranges, ivec3(at, 0)), c & 3), lane(fetch(ranges, ivec3(at, 1)), c & 3));
  }
  vec4 low = fetch(shared_ranges, ivec3(u.i[4].zw, 0));
  vec4 high = fetch(shared_ranges, ivec3(u.i[4].zw, 1));
  return vec2(min(min(low.x, low.y), min(low.z, low.w)), max(max(high.x, high.y), max(high.z, high.w)));
}

// Mean over the map pixels under a canvas pixel, at most 4 x 4 of them; a NaN or infinity among them shows.
float sampled(int c, ivec2 pixel) {
  float sum = 0.0, odd = 0.0;
  bool any_odd = false;
  int taps = u.i[1].w;
  for (int k = 0; k < taps * taps; k++) {
    vec2 at = (vec2(pixel) + (vec2(k % taps, k / taps) + 0.5) / float(taps)) * u.f[0].xy;
    ivec2 p = min(ivec2(at), u.x[0].frame.wz - 1);
    float v = element(x0, u.x[0], ivec4(u.i[0].x, c, p.y, p.x));
    if (is_nan(v) || (is_inf(v) && !any_odd)) {
      odd = v;
      any_odd = true;
    } else {
      sum += v * u.f[1].x;
    }
  }
  return any_odd ? odd : sum;
}

// Where v stands between low and high, 0 to 1; halves, since high - low may overflow.
float position(float v, vec2 range) {
  float width = range.y * 0.5 - range.x * 0.5;
  return width > 0.0 ? clamp((v * 0.5 - range.x * 0.5) / width, 0.0, 1.0) : 0.0;
}

vec4 colour(float v, vec2 range) {
  if (is_nan(v)) {
    ivec2 p = ivec2(gl_FragCoord.xy);
    return (p.x + p.y) % 3 == 0 ? vec4(0.0, 0.0, 0.0, 1.0) : MAGENTA;
  }
  if (is_inf(v)) return MAGENTA;
  bool is_signed = u.i[3].z < 2 && u.i[0].w == 0;
  if (range.x > range.y) range = vec2(0.0); // no finite value
  float most = max(abs(range.x), abs(range.y));
  if (is_signed) {
    // Texel 256 is zero, 1 and 511 are the ends.
    float t = most > 0.0 ? clamp(v / most, -1.0, 1.0) : 0.0;
    return fetch(maps, ivec3(256 + int(round(t * 255.0)), 0, u.i[3].z));
  }
  if (u.i[3].y == 1) range = vec2(-most, most);
  float t = position(v, range);
  if (u.i[0].w > 0) return vec4(vec3(t), 1.0);
  return fetch(maps, ivec3(int(round(t * 511.0)), 0, u.i[3].z));
}

void main() {
  ivec2 p = ivec2(gl_FragCoord.xy) - u.i[2].xy;
  p.y = u.i[2].w - 1 - p.y; // pictures begin at the top
  ivec2 cell = u.i[1].xy + u.i[1].z;
  ivec2 place = p / cell;
  p -= place * cell;
  int slot = place.y * u.i[0].y + place.x;
  bool is_rgb = u.i[0].w == 2;
  o0 = vec4(0.0);
  if (p.x >= u.i[1].x || p.y >= u.i[1].y || slot >= (is_rgb ? 1 : u.i[0].z)) return;
  int entry = slot - u.i[3].w;
  if (entry < 0 || entry >= 256) discard; // another draw's part
  if (is_rgb) {
    ivec4 c = channels.list[0];
    vec4 r = colour(sampled(c.x, p), range_of(c.x));
    vec4 g = colour(sampled(c.y, p), range_of(c.y));
    vec4 b = colour(sampled(c.z, p), range_of(c.z));
    o0 = vec4(r.x, g.y, b.z, 1.0);
    return;
  }
  ivec4 four = channels.list[entry >> 2];
  int k = entry & 3;
  int c = k < 2 ? (k == 0 ? four.x : four.y) : (k == 2 ? four.z : four.w);
  o0 = colour(sampled(c, p), range_of(c));
}
