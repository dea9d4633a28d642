// One stage of a reduction: each output element joins a box of the input, u_boxes long along n, groups, h, w.
// x0: input. x1 (GIVEN): a reduced tensor such as the mean, whose value `map` gets, or the input of the first stage,
// whose first element it gets. u_kept is 1 for axes that are kept.
// vec4 map(vec4 v, vec4 given, vec4 index), vec4 join(vec4 a, vec4 b), float joined(vec4 v), START and
// vec4 finish(vec4 v, vec4 given) come with the kind. u_steps: what a step along n, c, h, w adds to the index.
// CHANNELS: the channels are joined too, so lanes past the last one must hold START; LAST: it ends here.

vec4 pixel(ivec4 at) {
  Layout l = u.x[0];
  at = min(at, ivec4(u.o.nchw.x, u.o.tile.w, u.o.nchw.zw) - 1);
  ivec4 from = at * u_boxes, to = min(from + u_boxes, ivec4(l.nchw.x, l.tile.w, l.nchw.zw));
  vec4 given = vec4(0.0);
#if GIVEN
  given = texel(x1, u.x[1], at * u_kept);
#if CHANNELS
  given = given.xxxx;
#endif
#endif
  vec4 all = START;
  // A sum of rows of sums: long sums of small numbers keep their digits.
  for (int n = from.x; n < to.x; n++) {
    for (int g = from.y; g < to.y; g++) {
      vec4 plane = START;
      for (int y = from.z; y < to.z; y++) {
        ivec3 base = address(l, n, g, y, 0);
        vec4 index = vec4(n * u_steps.x + y * u_steps.z) + float(u_steps.y) * (float(4 * g) + vec4(0.0, 1.0, 2.0, 3.0));
        vec4 row = START;
        for (int x = from.w; x < to.w; x++) {
          int q = over(x, l.phase.y), texel = over(q, l.block.z);
          ivec3 p = base + ivec3(texel + (x - q * l.phase.y) * l.phase.z, 0, q - texel * l.block.z);
          row = join(row, map(fetch(x0, LIES(x0, l, p)), given, index + float(x * u_steps.w)));
        }
        plane = join(plane, row);
      }
#if CHANNELS
      int left = l.nchw.y - 4 * g;
      vec4 none = START;
      plane = vec4(plane.x, left > 1 ? plane.y : none.y, left > 2 ? plane.z : none.z, left > 3 ? plane.w : none.w);
#endif
      all = join(all, plane);
    }
  }
#if LAST
#if CHANNELS
  vec4 pair = join(all, all.zwzw);
  all = join(pair, pair.yyyy).xxxx;
#endif
  all = finish(all, given);
#endif
  return all;
}
