// unflatten.glsl for a tensor of single pixels whose texels hold four elements that follow each other.
vec4 pixel(ivec4 at) {
  int index = min(at.x, u.o.nchw.x - 1) * u.o.tile.w + at.y, line = quotient(index, u_width);
  return fetch(x0, ivec3(index - line * u_width, line, 0));
}
