// Visits every pixel of a strip of one channel group's map, in the texture's own order, without address():
// reductions don't mind the order, and a line of texels is read at steps of one.
// RESHAPED: in the order of the nchw that it is shown in, which is not the one that it lies in.
// nchw: of what is shown; work: image, strips a map, lines a strip (RESHAPED: elements), number of fragments.
void take(vec4 v);

#ifdef RESHAPED
void reduce(sampler2DArray s, Layout l, ivec4 nchw, ivec4 work, int group, int strip) {
  int plane = nchw.z * nchw.w, first = group * 4, left = nchw.y - first;
  int map = (work.x * nchw.y + first) * plane, last = map + min(plane, (strip + 1) * work.z);
  for (int at = map + strip * work.z; at < last; at++) {
    vec4 v = vec4(flat_element(s, l, at), 0.0, 0.0, 0.0);
    if (left > 1) v.y = flat_element(s, l, at + plane);
    if (left > 2) v.z = flat_element(s, l, at + 2 * plane);
    if (left > 3) v.w = flat_element(s, l, at + 3 * plane);
    take(v);
  }
}
#else
void reduce(sampler2DArray s, Layout l, ivec4 nchw, ivec4 work, int group, int strip) {
  int image = work.x;
  vec2 size = vec2(textureSize(s, 0).xy);
  int images = over(image, l.block.x), tile = images * l.tile.w + group;
  int tile_row = over(tile, l.tile.z);
  ivec2 base = ivec2((tile - tile_row * l.tile.z) * l.tile.x, tile_row * l.tile.y);
  int first_layer = (image - images * l.block.x) * l.block.y * l.block.z;
  int lines = l.phase.x * l.phase.y * l.block.y * l.block.z * l.tile.y;
  int last = min(lines, (strip + 1) * work.z);
  for (int line = strip * work.z; line < last; line++) {
    // A line is a row of texels of one layer in one phase's area: every step-th pixel of a row of the map.
    int part = over(line, l.tile.y), row = line - part * l.tile.y;
    int rows = over(part, l.block.z), dx = part - rows * l.block.z;
    int areas = over(rows, l.block.y), dy = rows - areas * l.block.y;
    ivec2 phase = ivec2(0, over(areas, l.phase.y));
    phase.x = areas - phase.y * l.phase.y;
    if ((row * l.block.y + dy) * l.phase.x + phase.y >= l.nchw.z) continue;
    int columns = over(l.nchw.w - phase.x + l.phase.y - 1, l.phase.y);
    int count = over(columns - dx + l.block.z - 1, l.block.z);
    vec3 at = vec3((vec2(base + ivec2(0, row) + phase * l.phase.zw) + 0.5) / size,
                   float(first_layer + dy * l.block.z + dx));
    float texel = 1.0 / size.x;
    for (int x = 0; x < count; x++) take(FETCH(s, at + vec3(float(x) * texel, 0.0, 0.0)));
  }
}

#endif

// Lanes of this group that are channels.
bvec4 channels(ivec4 nchw, int group) {
  return lessThan(ivec4(group * 4) + ivec4(0, 1, 2, 3), ivec4(nchw.y));
}
