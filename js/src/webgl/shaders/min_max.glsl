// Least and greatest finite value of a strip; with 4 targets also the sum (over f[0].x, the number of
// pixels, so that large values don't overflow) and the number of finite values.
// i[0]: see reduction.glsl. SOURCES: 4 values in rows one above the other, i[k] for value k, i[4 + k].x its first row,
// i[4].y the fragments of a row; otherwise i[1]: see index_of.
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
#ifdef SOURCES
  ivec2 p = ivec2(gl_FragCoord.xy);
  int k = int(p.y >= u.i[5].x) + int(p.y >= u.i[6].x) + int(p.y >= u.i[7].x);
  int index = (p.y - u.i[4 + k].x) * u.i[4].y + p.x;
#else
  int k = 0, index = index_of();
#endif
  ivec4 work = u.i[k];
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
