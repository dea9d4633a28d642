// The general gather: output element number e, as a multi-index o over sizes, is the input's row-major
// element offset + sum o[d] * stride[d]. i[0] offset and number of axes; size and stride of axis d are
// the pair number d behind it.
// INDEXED: the place along one more axis is element number e of x1; its stride and length are i[0].zw.
float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int index = u.i[0].x;
#if INDEXED
  int place = int(flat_element(x1, u.x[1], e));
  bool outside = place < -u.i[0].w || place >= u.i[0].w;
  index += clamp(place < 0 ? place + u.i[0].w : place, 0, u.i[0].w - 1) * u.i[0].z;
#endif
  for (int d = u.i[0].y - 1; d > 0; d--) {
    ivec4 pair = u.i[1 + d / 2];
    ivec2 axis = d % 2 == 0 ? pair.xy : pair.zw;
    int rest = e / axis.x;
    index += (e - rest * axis.x) * axis.y;
    e = rest;
  }
  float chosen = flat_element(x0, u.x[0], index + e * u.i[1].y);
#if INDEXED
  if (outside) chosen = uintBitsToFloat(0x7fc00000u);
#endif
  return chosen;
}
