// Least and greatest finite value of a strip; with 4 targets also the sum (over u_pixels, so that large values don't
// overflow) and the number of finite values.
// SOURCES: 4 values in rows one above the other.
vec4 low = vec4(BIG), high = vec4(-BIG), sum = vec4(0.0), count = vec4(0.0);

void take(vec4 v) {
  bvec4 ok = finite(v);
  low = mix(low, min(low, v), ok);
  high = mix(high, max(high, v), ok);
#if TARGETS > 2
  sum = mix(sum, sum + v / u_pixels, ok);
  count = mix(count, count + 1.0, ok);
#endif
}

void main() {
#ifdef SOURCES
  ivec2 p = ivec2(gl_FragCoord.xy);
  int k = int(p.y >= u_rows(1).x) + int(p.y >= u_rows(2).x) + int(p.y >= u_rows(3).x);
  int index = (p.y - u_rows(k).x) * u_rows(k).y + p.x;
  ivec4 work = u_work(k);
#else
  int k = 0, index = index_of();
  ivec4 work = u_work;
#endif
  if (index < work.w) {
    Layout l = u.x[k];
    ivec4 nchw = shown_as(k);
    int group = over(index, work.y), strip = index - group * work.y;
    if (k == 0) reduce(x0, l, nchw, work, group, strip);
#ifdef SOURCES
    if (k == 1) reduce(x1, l, nchw, work, group, strip);
    if (k == 2) reduce(x2, l, nchw, work, group, strip);
    if (k == 3) reduce(x3, l, nchw, work, group, strip);
#endif
    bvec4 real = channels(nchw, group);
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
