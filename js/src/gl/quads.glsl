// One quad a map, two triangles of a list: what is the same for all its pixels is computed here.
layout(std140) uniform Channels { ivec4 list[64]; } channels;
flat out ivec4 tile;
flat out ivec2 corner;
flat out vec2 range;

vec2 range_of(int c) {
  if (u.i[3].x == 2) return u.f[0].zw;
  int g = c >> 2, k = c & 3;
  if (u.i[3].x == 0) {
    int line = over(g, u.i[4].y);
    ivec2 at = ivec2(g - line * u.i[4].y, u.i[4].x + line);
    return vec2(lane(fetch(ranges, ivec3(at, 0)), k), lane(fetch(ranges, ivec3(at, 1)), k));
  }
  vec4 low = fetch(shared_ranges, ivec3(u.i[4].zw, 0));
  vec4 high = fetch(shared_ranges, ivec3(u.i[4].zw, 1));
  return vec2(min(min(low.x, low.y), min(low.z, low.w)), max(max(high.x, high.y), max(high.z, high.w)));
}

void main() {
  int k = over(gl_VertexID, 6), vertex = gl_VertexID - k * 6;
  ivec4 four = channels.list[k >> 2];
  int j = k & 3;
  int c = j < 2 ? (j == 0 ? four.x : four.y) : (j == 2 ? four.z : four.w);
  Layout l = u.x[0];
  int n = u.i[0].x, images = over(n, l.block.x), number = images * l.tile.w + (c >> 2);
  int row = over(number, l.tile.z);
  tile = ivec4((number - row * l.tile.z) * l.tile.x, row * l.tile.y,
               (n - images * l.block.x) * l.block.y * l.block.z, c & 3);

  range = range_of(c);
  if (range.x > range.y) range = vec2(0.0); // no finite value
  float most = max(abs(range.x), abs(range.y));
  if (u.i[3].y != 1) range = vec2(-most, most);

  int slot = u.i[0].w + k, line = over(slot, u.i[0].y);
  ivec2 place = ivec2(slot - line * u.i[0].y, line) * (u.i[1].xy + u.i[1].z);
  // Pictures begin at the top, canvas rows are counted from below.
  ivec2 low = ivec2(place.x, u.i[2].w - place.y - u.i[1].y);
  corner = low + u.i[2].xy;
  // 0 1 2 and 2 1 3 of the corners (x: odd, y: 2 and 3)
  int at = vertex < 3 ? vertex : (vertex == 3 ? 2 : (vertex == 4 ? 1 : 3));
  ivec2 edge = low + ivec2(at & 1, at >> 1) * u.i[1].xy;
  gl_Position = vec4(vec2(edge) / vec2(u.i[2].zw) * 2.0 - 1.0, 0.0, 1.0);
}
