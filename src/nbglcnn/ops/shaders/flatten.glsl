// Elements 4t..4t+3 of a tensor in row-major order, for reading back; u_width of the output in texels.
// PLAIN says that the input has no phases and lies in blocks of 2×2, ROWS that besides its rows are whole texels
// of the output.

#if ROWS
void main() {
  Layout l = u.x[0];
  ivec2 p = ivec2(gl_FragCoord.xy);
  // Past the end the last four are repeated: a read outside the texture has no defined value.
  int last = l.nchw.x * l.nchw.y * l.nchw.z * l.nchw.w - 4;
  ivec4 at = unravel(l.nchw, min((p.y * u_width + p.x) * 4, last));
  int tile = at.x * l.tile.w + (at.y >> 2), line = quotient(tile, l.tile.z), k = at.y & 3;
  vec2 unit = 1.0 / vec2(textureSize(x0, 0).xy);
  ivec2 corner = ivec2(tile - line * l.tile.z, line) * l.tile.xy + (at.wz >> 1);
  vec3 even = vec3((vec2(corner) + 0.5) * unit, (at.z & 1) * 2), next = vec3(unit.x, 0.0, 0.0);
  vec4 a = FETCH(x0, even), b = FETCH(x0, even + vec3(0.0, 0.0, 1.0));
  vec4 c = FETCH(x0, even + next), d = FETCH(x0, even + next + vec3(0.0, 0.0, 1.0));
  o0 = k < 2 ? (k == 0 ? vec4(a.x, b.x, c.x, d.x) : vec4(a.y, b.y, c.y, d.y))
             : (k == 2 ? vec4(a.z, b.z, c.z, d.z) : vec4(a.w, b.w, c.w, d.w));
}
#else
vec4 quotients(vec4 a, int b) {
  return floor((a + 0.5) / float(b));
}

// The four follow each other, so that only the first one's place takes divisions of large numbers.
void main() {
  Layout l = u.x[0];
  ivec2 p = ivec2(gl_FragCoord.xy);
  int last = l.nchw.x * l.nchw.y * l.nchw.z * l.nchw.w - 1, first = min((p.y * u_width + p.x) * 4, last);
  ivec4 at = unravel(l.nchw, first);
  // Past the end the last element is repeated: a read outside the texture has no defined value.
  vec4 x = float(at.w) + min(vec4(0, 1, 2, 3), float(last - first)), rows = quotients(x, l.nchw.w);
  vec4 y = float(at.z) + rows, planes = quotients(y, l.nchw.z);
  vec4 c = float(at.y) + planes, images = quotients(c, l.nchw.y), n = float(at.x) + images;
  x -= rows * float(l.nchw.w);
  y -= planes * float(l.nchw.z);
  c -= images * float(l.nchw.y);
  // What `address` does.
  vec4 g = floor(c * 0.25);
#if PLAIN
  int tile = at.x * l.tile.w + (at.y >> 2);
  vec4 tiles = n * float(l.tile.w) + g, px = floor(x * 0.5), py = floor(y * 0.5);
  vec4 layer = (y - 2.0 * py) * 2.0 + x - 2.0 * px;
#else
  int tile = over(at.x, l.block.x) * l.tile.w + (at.y >> 2);
  vec4 qx = quotients(x, l.phase.y), qy = quotients(y, l.phase.x), block = quotients(n, l.block.x);
  vec4 tiles = block * float(l.tile.w) + g, px = quotients(qx, l.block.z), py = quotients(qy, l.block.y);
  vec4 layer = ((n - block * float(l.block.x)) * float(l.block.y) + qy - py * float(l.block.y)) * float(l.block.z)
               + qx - px * float(l.block.z);
  px += (x - qx * float(l.phase.y)) * float(l.phase.z);
  py += (y - qy * float(l.phase.x)) * float(l.phase.w);
#endif
  int line = quotient(tile, l.tile.z);
  vec4 column = tiles - float(line * l.tile.z), down = quotients(column, l.tile.z);
  vec2 unit = 1.0 / vec2(textureSize(x0, 0).xy);
  vec4 s = ((column - down * float(l.tile.z)) * float(l.tile.x) + px + 0.5) * unit.x;
  vec4 t = ((float(line) + down) * float(l.tile.y) + py + 0.5) * unit.y;
  ivec4 k = ivec4(c - 4.0 * g);
  o0 = vec4(lane(FETCH(x0, vec3(s.x, t.x, layer.x)), k.x), lane(FETCH(x0, vec3(s.y, t.y, layer.y)), k.y),
            lane(FETCH(x0, vec3(s.z, t.z, layer.z)), k.z), lane(FETCH(x0, vec3(s.w, t.w, layer.w)), k.w));
}
#endif
