// The general gather: output element number e, as a multi-index o over sizes, is the input's row-major
// element u_offset + sum o[d] * stride[d]. Sizes and strides of the u_axes axes lie in u_pairs, those of two in each.
// INDEXED: the place along one more axis, of u_stride and u_length, is element number e of x1.
float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int index = u_offset;
#if INDEXED
  int place = int(flat_element(x1, u.x[1], e));
  bool outside = place < -u_length || place >= u_length;
  index += clamp(place < 0 ? place + u_length : place, 0, u_length - 1) * u_stride;
#endif
  for (int d = u_axes - 1; d > 0; d--) {
    ivec4 pair = u_pairs(d / 2);
    ivec2 axis = d % 2 == 0 ? pair.xy : pair.zw;
    int rest = e / axis.x;
    index += (e - rest * axis.x) * axis.y;
    e = rest;
  }
  float chosen = flat_element(x0, u.x[0], index + e * u_pairs(0).y);
#if INDEXED
  if (outside) chosen = uintBitsToFloat(0x7fc00000u);
#endif
  return chosen;
}
