// Combines neighbouring partial results: with n = u_each texel k of the output combines texels k*n .. k*n+n-1 of a.
// SUMS: all targets are sums; otherwise the first two are least and greatest, further ones sums.
void main() {
  int index = index_of();
  vec4 low = vec4(SUMS == 1 ? 0.0 : BIG), high = vec4(SUMS == 1 ? 0.0 : -BIG);
  vec4 sum = vec4(0.0), count = vec4(0.0);
  int last = min((index + 1) * u_each, u_texels);
  if (index < u_results) {
    for (int k = index * u_each; k < last; k++) {
      int row = over(k, u_width_before);
      ivec2 at = ivec2(k - row * u_width_before, row);
#if SUMS
      low += fetch(a, ivec3(at, 0));
      high += fetch(a, ivec3(at, 1));
#else
      low = min(low, fetch(a, ivec3(at, 0)));
      high = max(high, fetch(a, ivec3(at, 1)));
#endif
#if TARGETS > 2
      sum += fetch(a, ivec3(at, 2));
      count += fetch(a, ivec3(at, 3));
#endif
    }
  }
  o0 = low;
  o1 = high;
#if TARGETS > 2
  o2 = sum;
  o3 = count;
#endif
}
