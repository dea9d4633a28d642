// A function of COUNT tensors, element by element, each repeated along its axes of length 1:
// vec4 combine(vec4 a, ...). Inputs x0..x3; a fifth, w0, lies exactly as x3 does.
// A, B, C, D say how each is read: 0 at any place; 1 it lies as the output does, so that a fragment's own texels
// are read; 2 one value for the whole block, read once; 3 the same, and a texel for each channel group, as all have it
// that are read so.

vec4 spread(sampler2DArray s, Layout l, ivec4 at) {
  vec4 v = texel(s, l, min(at, ivec4(l.nchw.x, l.tile.w, l.nchw.zw) - 1));
  return l.nchw.y == 1 ? v.xxxx : v;
}

vec4 once0, once1, once2, once3, once4;

// Where the operands that lie as the output does are read, but for the layer, and those with a texel for each group.
vec2 here;
vec3 of_group;

vec3 texel_of(int group, sampler2DArray s, Layout l) {
  int line = over(group, l.tile.z);
  return vec3((vec2(group - line * l.tile.z, line) + 0.5) / vec2(textureSize(s, 0).xy), 0.0);
}

#if A == 1
#define READ0 FETCH(x0, vec3(here, float(k)))
#elif A >= 2
#define READ0 once0
#else
#define READ0 spread(x0, u.x[0], at)
#endif
#if B == 1
#define READ1 FETCH(x1, vec3(here, float(k)))
#elif B >= 2
#define READ1 once1
#else
#define READ1 spread(x1, u.x[1], at)
#endif
#if C == 1
#define READ2 FETCH(x2, vec3(here, float(k)))
#elif C >= 2
#define READ2 once2
#else
#define READ2 spread(x2, u.x[2], at)
#endif
#if D == 1
#define READ3 FETCH(x3, vec3(here, float(k)))
#define READ4 FETCH(w0, vec3(here, float(k)))
#elif D >= 2
#define READ3 once3
#define READ4 once4
#else
#define READ3 spread(x3, u.x[3], at)
#define READ4 spread(w0, u.x[3], at)
#endif

vec4 value(int k, ivec4 base) {
  int dx = k % BX, dy = (k / BX) % BY, dn = k / (BX * BY);
  ivec4 at = base + ivec4(dn, 0, dy * u.o.phase.x, dx * u.o.phase.y);
#if COUNT == 1
  return keep(combine(READ0), base.y);
#elif COUNT == 2
  return keep(combine(READ0, READ1), base.y);
#elif COUNT == 3
  return keep(combine(READ0, READ1, READ2), base.y);
#elif COUNT == 4
  return keep(combine(READ0, READ1, READ2, READ3), base.y);
#else
  return keep(combine(READ0, READ1, READ2, READ3, READ4), base.y);
#endif
}

void main() {
  ivec4 base = origin();
#if !WHOLE
  if (base.x < 0) {
    o0 = vec4(0.0);
#if LAYERS > 1
    o1 = vec4(0.0);
#endif
#if LAYERS > 2
    o2 = o3 = vec4(0.0);
#endif
    return;
  }
#endif
#if A == 1
  here = gl_FragCoord.xy / vec2(textureSize(x0, 0).xy);
#elif B == 1
  here = gl_FragCoord.xy / vec2(textureSize(x1, 0).xy);
#elif C == 1
  here = gl_FragCoord.xy / vec2(textureSize(x2, 0).xy);
#elif D == 1
  here = gl_FragCoord.xy / vec2(textureSize(x3, 0).xy);
#endif
#if A == 3
  of_group = texel_of(base.y, x0, u.x[0]);
#elif B == 3
  of_group = texel_of(base.y, x1, u.x[1]);
#elif C == 3
  of_group = texel_of(base.y, x2, u.x[2]);
#elif D == 3
  of_group = texel_of(base.y, x3, u.x[3]);
#endif
#if A == 2
  once0 = spread(x0, u.x[0], base);
#elif A == 3
  once0 = FETCH(x0, of_group);
#endif
#if COUNT > 1 && B == 2
  once1 = spread(x1, u.x[1], base);
#elif COUNT > 1 && B == 3
  once1 = FETCH(x1, of_group);
#endif
#if COUNT > 2 && C == 2
  once2 = spread(x2, u.x[2], base);
#elif COUNT > 2 && C == 3
  once2 = FETCH(x2, of_group);
#endif
#if COUNT > 3 && D == 2
  once3 = spread(x3, u.x[3], base);
#elif COUNT > 3 && D == 3
  once3 = FETCH(x3, of_group);
#endif
#if COUNT > 4 && D == 2
  once4 = spread(w0, u.x[3], base);
#elif COUNT > 4 && D == 3
  once4 = FETCH(w0, of_group);
#endif
  o0 = value(0, base);
#if LAYERS > 1
  o1 = value(1, base);
#endif
#if LAYERS > 2
  o2 = value(2, base);
  o3 = value(3, base);
#endif
}
