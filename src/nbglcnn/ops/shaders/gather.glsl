// Slices of x0 chosen by indices. An output element is (outer, row, inner): row says where its slice starts. u_inner
// elements a slice; u_rows a part (outer), of which each has u_per_outer elements of x0 and moves the indices by
// u_moving rows; u_each indices a row; u_axes: stride and length of the axis that index j of a row chooses from.
// CONSTANT: w0 holds the start of each row, four a texel; else x1 holds the indices.
#if CONSTANT
int start(int row) {
  int t = row >> 2;
  return int(lane(fetch(w0, ivec3(t & 1023, t >> 10, 0)), row & 3));
}
#else
// Negative where an index is outside of its axis: there is nothing to choose.
int start(int row) {
  int sum = 0;
  bool outside = false;
  for (int j = 0; j < u_each; j++) {
    int place = int(flat_element(x1, u.x[1], row * u_each + j)), length = u_axes(j).y;
    outside = outside || place < -length || place >= length;
    sum += clamp(place < 0 ? place + length : place, 0, length - 1) * u_axes(j).x;
  }
  return outside ? -1 : sum;
}
#endif

float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int slice = e / u_inner, outer = slice / u_rows, row = slice - outer * u_rows;
  int first = start(outer * u_moving + row);
  float chosen = flat_element(x0, u.x[0], outer * u_per_outer + max(first, 0) + e - slice * u_inner);
  return first < 0 ? uintBitsToFloat(0x7fc00000u) : chosen;
}
