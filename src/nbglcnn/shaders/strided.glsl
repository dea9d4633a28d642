// The general gather: output element number e, as a multi-index o over sizes, is the input's row-major
// element offset + sum o[d] * stride[d]. i[0] offset and number of axes; i[1 + d] size and stride of axis d.
float source(int e) {
  int index = u.i[0].x;
  for (int d = u.i[0].y; d > 1; d--) {
    int rest = e / u.i[d].x;
    index += (e - rest * u.i[d].x) * u.i[d].y;
    e = rest;
  }
  return flat_element(x0, u.x[0], index + e * u.i[1].y);
}

vec4 pixel(ivec4 at) {
  // Pixels of a block that lie outside the map repeat its edge: nobody reads them, but the address must exist.
  at = min(at, ivec4(u.o.frame.x - 1, at.y, u.o.frame.zw - 1));
  int plane = u.o.frame.z * u.o.frame.w, image = at.x * u.o.frame.y, within = at.z * u.o.frame.w + at.w;
  int c = at.y * 4, last = u.o.frame.y - 1;
  return vec4(
    source((image + c) * plane + within), source((image + min(c + 1, last)) * plane + within),
    source((image + min(c + 2, last)) * plane + within), source((image + min(c + 3, last)) * plane + within));
}
