// Least and greatest finite value of a strip; with 4 targets also the sum (over f[0].x, the number of
// pixels, so that large values don't overflow) and the number of finite values.
vec4 low = vec4(BIG), high = vec4(-BIG), sum = vec4(0.0), count = vec4(0.0);

void take(vec4 v) {
  bvec4 ok = finite(v);
  low = mix(low, min(low, v), ok);
  high = mix(high, max(high, v), ok);
#if TARGETS > 2
  sum = mix(sum, sum + v / u.f[0].x, ok);
  count = mix(count, count + 1.0, ok);
#endif
}

void main() {
  int index = index_of();
  if (index < u.i[0].w) {
    int group = over(index, u.i[0].y);
    walk(group, index - group * u.i[0].y);
    bvec4 real = channels(group);
    low = mix(vec4(BIG), low, real);
    high = mix(vec4(-BIG), high, real);
  }
  o0 = low;
  o1 = high;
#if TARGETS > 2
  o2 = sum;
  o3 = count;
#endif
}
