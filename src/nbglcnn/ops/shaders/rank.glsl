// How many elements along an axis come before each one; NaN counts as the largest, equal ones keep their order.
// u_length of the axis, u_inner elements between two of its places; u_smallest: 1 if the smallest come first.
// The places from u_begin to before u_end are compared. GOES_ON: x1 has the counts of those in front.
bool before(float a, float b, bool earlier) {
  bool an = is_nan(vec4(a)).x, bn = is_nan(vec4(b)).x;
  if (an || bn) return an && bn ? earlier : an == (u_smallest == 0);
  return a == b ? earlier : (a < b) == (u_smallest == 1);
}

float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int place = e / u_inner % u_length, first = e - place * u_inner, count = 0;
  float own = flat_element(x0, u.x[0], e);
  for (int k = u_begin; k < u_end; k++) {
    if (k != place && before(flat_element(x0, u.x[0], first + k * u_inner), own, k < place)) count++;
  }
#if GOES_ON
  return float(count) + flat_element(x1, u.x[1], e);
#endif
  return float(count);
}
