// As affine_gather.glsl where four output channels are one input texel, so that a single fetch serves them.
vec4 pixel(ivec4 at) {
  int part = over(4 * at.y, u_inner);
  ivec4 p = u_first + u_steps(0) * min(at.x, u.o.nchw.x - 1) + u_steps(2) * min(at.z, u.o.nchw.z - 1)
          + u_steps(3) * min(at.w, u.o.nchw.w - 1) + u_steps(4) * part;
  return texel(x0, u.x[0], ivec4(p.x, (p.y >> 2) + at.y - part * (u_inner >> 2), p.zw));
}
