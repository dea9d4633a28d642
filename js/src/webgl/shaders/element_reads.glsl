// Where the values under one canvas pixel lie, for the shaders that draw them. Whole numbers are floats here, in which they are exact: processors divide and
// round them faster. For the same reason nothing branches, and what is the same for a map's pixels comes from `table`:
// column, row (over the texture's size) and layer of its first texel, and its channel, -1 where there is no map.
// RESHAPED: shown in another nchw than it lies in, `table` has the image instead of a layer.
flat in vec4 cells;     // canvas pixels of a map with the gap beside it; 1 over those
flat in vec4 corner;    // left and top of the picture in the canvas; its corner in `table`, over that one's size
flat in vec4 columns;   // map pixels a canvas pixel, 1 over phases, 1 over pixels of a block, phases
flat in vec4 to_column; // over the texture's size: a texel, a phase's area; pixels of a block, layers a pixel
flat in vec4 rows;
flat in vec4 to_row;
flat in vec4 shades;    // columns of `maps` over its width: from end to end, the first; its layer, that of marks
flat in vec3 over_table; // 1 over the table's size; its layer
flat in vec2 shared_ends;
flat in vec2 clipped;   // what an image's values are clipped below and above
flat in vec2 size;      // canvas pixels of a map
layout(location = 0) out vec4 o0;

// Columns of the layer of marks.
const float NONE = 0.5 / 3.0, MAGENTA = 1.5 / 3.0, BLACK = 2.5 / 3.0;

// address() of the prelude for a column or row of the map, `p` canvas pixels from its edge: what leads to it from the
// first texel, in the texture and among its layers.
vec2 along(float p, vec4 of, vec4 to) {
  float r = floor(p * of.x), q = floor((r + 0.5) * of.y), t = floor((q + 0.5) * of.z);
  return vec2(t * to.x + (r - q * of.w) * to.y, (q - t * to.z) * to.w);
}
vec3 column(float p) {
  vec2 at = along(p, columns, to_column);
  return vec3(at.x, 0.0, at.y);
}
vec3 row(float p) {
  vec2 at = along(p, rows, to_row);
  return vec3(0.0, at);
}

// The bits of the lane that holds a map's channel.
uvec4 lane_of(float channel) {
#ifdef RESHAPED
  return uvec4(0xffffffffu, 0u, 0u, 0u);
#else
  float of_group = channel - floor(channel * 0.25) * 4.0;
  return uvec4(-ivec4(equal(vec4(of_group), vec4(0.0, 1.0, 2.0, 3.0))));
#endif
}

// One lane's bits; the others are zeros. A multiplication with a 0/1 vector would let a NaN through.
uint bits_of(vec4 four, uvec4 lane) {
  uvec4 bits = floatBitsToUint(four) & lane;
  return bits.x | bits.y | bits.z | bits.w;
}

#ifdef RESHAPED
// The element under p, its bits alone in a lane.
vec4 element_at(vec4 tile, vec2 p) {
  ivec4 nchw = shown_as(0);
  ivec2 at = min(ivec2(p * vec2(columns.x, rows.x)), nchw.wz - 1);
  int channel = int(tile.z) * nchw.y + max(int(tile.w), 0);
  return vec4(flat_element(x0, u.x[0], (channel * nchw.z + at.y) * nchw.w + at.x), 0.0, 0.0, 0.0);
}
#define READ(p, texel) element_at(tile, p)
#else
#define READ(p, texel) FETCH(x0, texel)
#endif

// Least and greatest value of a channel of the value that is shown.
vec2 channel_range(float channel) {
  float group = floor(channel * 0.25);
  int g = u_first + max(int(group), 0), line_of = over(g, u_columns), c = int(channel - group * 4.0);
  ivec2 at = ivec2(g - line_of * u_columns, line_of);
  return ends(lane(fetch(ranges, ivec3(at, 0)), c), lane(fetch(ranges, ivec3(at, 1)), c));
}

// What stands in place of a colour where a number isn't one: NaN hatched, infinity solid.
vec2 marked(vec2 shade, vec2 p, uint largest) {
  float diagonal = (p.x + p.y) * (1.0 / 3.0);
  bool hatched = largest > 0x7f800000u && diagonal - floor(diagonal) < 0.5 / 3.0;
  return largest >= 0x7f800000u ? vec2(hatched ? BLACK : MAGENTA, shades.w) : shade;
}
