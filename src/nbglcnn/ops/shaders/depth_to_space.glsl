// Channels spread over blocks of u_block pixels. u_along and u_across: what a step of the output's channel and of the
// place in the block adds to the input's channel.
float source(ivec4 at) {
  ivec2 p = at.zw / u_block;
  ivec2 q = at.zw - p * u_block;
  return element(x0, u.x[0], ivec4(at.x, at.y * u_along + (q.x * u_block + q.y) * u_across, p));
}
