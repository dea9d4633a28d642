// One triangle that covers the viewport. What is the same for all pixels of a picture is worked out here, as floats:
// the range that its maps share too.
flat out vec4 cells, corner, columns, to_column, rows, to_row, shades;
flat out vec3 over_table;
flat out vec2 shared_ends, clipped, size;

void main() {
  Layout l = u.x[0];
  cells = vec4(u_cell, u_over_cell);
  size = vec2(u_size);
  over_table = vec3(u_over_table, u_table_layer);
  corner = vec4(u_origin, (vec2(u_corner) + 0.5) * u_over_table);
  columns = vec4(u_step.x, u_over_phases.x, u_over_blocks.x, l.phase.y);
  to_column = vec4(u_over_texture.x, float(l.phase.z) * u_over_texture.x, l.block.z, 1.0);
  rows = vec4(u_step.y, u_over_phases.y, u_over_blocks.y, l.phase.x);
  to_row = vec4(u_over_texture.y, float(l.phase.w) * u_over_texture.y, l.block.yz);
  // Of a signed map texel 256 is zero, 1 and 511 are the ends.
  vec2 texels = u_scaling == 0 ? vec2(510.0, 1.5) : vec2(511.0, 0.5);
  shades = vec4(texels / 512.0, u_colormap, u_marks);
  vec4 low = fetch(ranges, ivec3(u_shared, 0));
  vec4 high = fetch(ranges, ivec3(u_shared, 1));
  vec2 layer = vec2(min(min(low.x, low.y), min(low.z, low.w)), max(max(high.x, high.y), max(high.z, high.w)));
  vec2 range = u_range == 2 ? u_fixed : layer;
  shared_ends = ends(range.x, range.y);
  clipped = u_clipped;
  gl_Position = vec4(float(gl_VertexID == 1) * 4.0 - 1.0, float(gl_VertexID == 2) * 4.0 - 1.0, 0.0, 1.0);
}
