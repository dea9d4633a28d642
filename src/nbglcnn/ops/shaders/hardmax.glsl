// 1 where an element's index is the one chosen, else 0. x0: the chosen indices, of length 1 along the axis.
// u_steps: what a step along n, c, h, w of the nchw adds to the index.
vec4 pixel(ivec4 at) {
  Layout l = u.x[0];
  vec4 chosen = texel(x0, l, min(at, ivec4(l.nchw.x, l.tile.w, l.nchw.zw) - 1));
  chosen = l.nchw.y == 1 ? chosen.xxxx : chosen;
  vec4 own = float(at.x * u_steps.x + at.z * u_steps.z + at.w * u_steps.w)
    + float(u_steps.y) * (float(4 * at.y) + vec4(0.0, 1.0, 2.0, 3.0));
  return select(equal(own, chosen), vec4(1.0), vec4(0.0));
}
