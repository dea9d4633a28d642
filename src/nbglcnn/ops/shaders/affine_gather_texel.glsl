// As affine_gather.glsl where four output channels are one input texel, so that a single fetch serves them.
vec4 pixel(ivec4 at) {
  at = min(at, ivec4(u.o.nchw.x - 1, at.y, u.o.nchw.zw - 1));
  ivec2 part = ivec2(over(at.x, u_inner.x), over(4 * at.y, u_inner.y));
  ivec4 p = u_first + u_steps(0) * (at.x - part.x * u_inner.x) + u_steps(2) * at.z + u_steps(3) * at.w
          + u_steps(4) * part.x + u_steps(5) * part.y;
  return texel(x0, u.x[0], ivec4(p.x, (p.y >> 2) + at.y - part.y * (u_inner.y >> 2), p.zw));
}
