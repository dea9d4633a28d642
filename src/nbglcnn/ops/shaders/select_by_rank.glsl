// Which place along an axis of x0 holds the rank that is this element's own place.
// u_length of the axis, u_inner elements between two of its places, u_kept the length of the axis of the output.
// It is looked for from u_begin to before u_end. GOES_ON: x1 has what was found in front.
float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int row = e / u_inner, outer = row / u_kept;
  int first = outer * u_length * u_inner + e - row * u_inner;
  float wanted = float(row - outer * u_kept);
  for (int k = u_begin; k < u_end; k++) {
    if (flat_element(x0, u.x[0], first + k * u_inner) == wanted) return float(k);
  }
#if GOES_ON
  return flat_element(x1, u.x[1], e);
#endif
  return 0.0;
}
