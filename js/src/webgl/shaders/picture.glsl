// One triangle that covers the viewport. What is the same for all pixels of a picture is worked out here, as floats:
// the range that its maps share too.
flat out vec4 cells, corner, columns, to_column, rows, to_row, shades;
flat out vec3 over_table;
flat out vec2 shared_ends, clipped, size;

void main() {
  Layout l = u.x[0];
  cells = vec4(u.i[1].xy, u.f[0].xy);
  size = vec2(u.i[1].zw);
  over_table = vec3(u.f[0].zw, u.i[2].z);
  corner = vec4(u.i[0].xy, (vec2(u.i[0].zw) + 0.5) * u.f[0].zw);
  columns = vec4(u.f[1].x, u.f[2].xz, l.phase.y);
  to_column = vec4(u.f[3].x, float(l.phase.z) * u.f[3].x, l.block.z, 1.0);
  rows = vec4(u.f[1].y, u.f[2].yw, l.phase.x);
  to_row = vec4(u.f[3].y, float(l.phase.w) * u.f[3].y, l.block.yz);
  // Of a signed map texel 256 is zero, 1 and 511 are the ends.
  vec2 texels = u.i[3].y == 0 ? vec2(510.0, 1.5) : vec2(511.0, 0.5);
  shades = vec4(texels / 512.0, u.i[2].xw);
  vec4 low = fetch(ranges, ivec3(u.i[4].zw, 0));
  vec4 high = fetch(ranges, ivec3(u.i[4].zw, 1));
  vec2 layer = vec2(min(min(low.x, low.y), min(low.z, low.w)), max(max(high.x, high.y), max(high.z, high.w)));
  vec2 range = u.i[3].x == 2 ? u.f[1].zw : layer;
  shared_ends = ends(range.x, range.y);
  clipped = u.f[3].zw;
  gl_Position = vec4(float(gl_VertexID == 1) * 4.0 - 1.0, float(gl_VertexID == 2) * 4.0 - 1.0, 0.0, 1.0);
}
