// Channels spread over blocks of pixels. i[0] block, and what a step of the output's channel and of the
// place in the block adds to the input's channel.
float source(ivec4 at) {
  ivec2 p = at.zw / u.i[0].x;
  ivec2 q = at.zw - p * u.i[0].x;
  return element(x0, u.x[0], ivec4(at.x, at.y * u.i[0].y + (q.x * u.i[0].x + q.y) * u.i[0].z, p));
}
