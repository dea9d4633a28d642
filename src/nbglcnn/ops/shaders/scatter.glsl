// Elements of x0 replaced by those updates of x2 whose indices in x1 name them, or joined with them, in order.
// JOIN: 0 the last one replaces, 1 sum, 2 product, 3 the larger, 4 the smaller.
// Of the rows of indices from u_begin to before u_end (places along the axis, where each index names an element).
// ELEMENTS: each index names a place along u_axis, one of the axes, of which there are u_count. u_axes: length of an
// axis of x0, its length in x1 and elements between two of its places there.
// Else rows of u_each indices name slices of u_inner elements. u_axes: slices between two places of the axis that an
// index names, and its length. TABLE: w0 has for each slice its row, or -1.

float joined(float a, float b) {
#if JOIN == 0
  return b;
#elif JOIN == 1
  return a + b;
#elif JOIN == 2
  return a * b;
#elif JOIN == 3
  return larger(vec4(a), vec4(b)).x;
#else
  return smaller(vec4(a), vec4(b)).x;
#endif
}

int index(int place, int length) {
  int i = int(flat_element(x1, u.x[1], place));
  return i < 0 ? i + length : i;
}

float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  float v = flat_element(x0, u.x[0], e);
#if ELEMENTS
  int first = 0, own = 0, rest = e;
  for (int d = u_count - 1; d >= 0; d--) {
    ivec3 axis = u_axes(d);
    int next = rest / axis.x, place = rest - next * axis.x;
    rest = next;
    if (d == u_axis) own = place;
    else if (place >= axis.y) return v;
    else first += place * axis.z;
  }
  ivec3 along = u_axes(u_axis);
  for (int k = u_begin; k < u_end; k++) {
    int from = first + k * along.z;
    if (index(from, along.x) == own) v = joined(v, flat_element(x2, u.x[2], from));
  }
#else
  int slice = e / u_inner, inner = e - slice * u_inner;
#if TABLE
  int texel = slice >> 2, row = int(lane(fetch(w0, ivec3(texel & 1023, texel >> 10, 0)), slice & 3));
  if (row >= 0) v = joined(v, flat_element(x2, u.x[2], row * u_inner + inner));
#else
  for (int row = u_begin; row < u_end; row++) {
    int named = 0;
    for (int k = 0; k < u_each; k++) named += index(row * u_each + k, u_axes(k).y) * u_axes(k).x;
    if (named == slice) v = joined(v, flat_element(x2, u.x[2], row * u_inner + inner));
  }
#endif
#endif
  return v;
}
