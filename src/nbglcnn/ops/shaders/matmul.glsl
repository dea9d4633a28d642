// Matrix products out[n][i][j] = sum over k of a[n'][i][k] * b[n''][k][j]: rows are channels, columns pixels.
// x0: a (batches, rows, 1, inner), x1: b (batches, inner, 1, columns). Four texels of a serve all BX pixels.
// u_inner length; u_lengths of the batch axes, u_left and u_right their steps in a and b.
// ALIGNED: four neighbours along a's inner axis are the four layers of a texel.

// Texel offset and layer of column x in its tile.
vec2 column(Layout l, int x) {
  return place(x, l.phase.y, l.phase.z, l.block.z, 1);
}

ivec2 batches(int n) {
  ivec2 at = ivec2(0);
  int rest = n / u_lengths.w;
  at += (n - rest * u_lengths.w) * ivec2(u_left.w, u_right.w);
  n = rest / u_lengths.z;
  at += (rest - n * u_lengths.z) * ivec2(u_left.z, u_right.z);
  rest = n / u_lengths.y;
  at += (n - rest * u_lengths.y) * ivec2(u_left.y, u_right.y);
  return at + rest * ivec2(u_left.x, u_right.x);
}

void main() {
  ivec4 at = origin();
  vec4 a0 = vec4(0.0);
#if LAYERS > 1
  vec4 a1 = vec4(0.0);
#endif
#if LAYERS > 2
  vec4 a2 = vec4(0.0), a3 = vec4(0.0);
#endif
  if (at.x >= 0) {
    Layout l = u.x[0], m = u.x[1];
    ivec2 n = batches(at.x);
    vec2 as = UNIT(x0), bs = UNIT(x1);
    int inner = u_inner, groups = (inner + 3) / 4, last = u.o.nchw.w - 1;
    ivec3 row = address(l, n.x, at.y, 0, 0);
    vec3 p = vec3((vec2(row.xy) + 0.5) * as, float(row.z));
    int first = n.y / m.block.x * m.tile.w;
    float image = float(n.y % m.block.x * m.block.y * m.block.z);
    vec2 c0 = column(m, at.w);
    vec3 b0 = vec3((c0.x + 0.5) * bs.x, 0.5 * bs.y, image + c0.y);
#if LAYERS > 1
    vec2 c1 = column(m, min(at.w + 1, last));
    vec3 b1 = vec3((c1.x + 0.5) * bs.x, 0.5 * bs.y, image + c1.y);
#endif
#if LAYERS > 2
    vec2 c2 = column(m, min(at.w + 2, last)), c3 = column(m, min(at.w + 3, last));
    vec3 b2 = vec3((c2.x + 0.5) * bs.x, 0.5 * bs.y, image + c2.y);
    vec3 b3 = vec3((c3.x + 0.5) * bs.x, 0.5 * bs.y, image + c3.y);
#endif
    // Runs of inner groups whose tiles in b stand in one row.
    for (int g = 0; g < groups;) {
      int tile = first + g, line = tile / m.tile.z, place = tile - line * m.tile.z;
      int run = min(groups - g, m.tile.z - place);
      vec3 shift = vec3(vec2(place * m.tile.x, line * m.tile.y) * bs, 0.0);
      float step = float(m.tile.x) * bs.x;
      for (int k = 0; k < run; k++, g++) {
        int left = inner - 4 * g;
#if ALIGNED
        vec3 q = vec3(p.x + float(g) * as.x, p.yz);
        vec4 q0 = SAMPLE(x0, l, q);
        vec4 q1 = SAMPLE(x0, l, vec3(q.xy, q.z + 1.0));
        vec4 q2 = SAMPLE(x0, l, vec3(q.xy, q.z + 2.0));
        vec4 q3 = SAMPLE(x0, l, vec3(q.xy, q.z + 3.0));
#else
        vec2 t = column(l, 4 * g);
        vec4 q0 = SAMPLE(x0, l, vec3(p.x + t.x * as.x, p.y, p.z + t.y));
        t = column(l, min(4 * g + 1, inner - 1));
        vec4 q1 = SAMPLE(x0, l, vec3(p.x + t.x * as.x, p.y, p.z + t.y));
        t = column(l, min(4 * g + 2, inner - 1));
        vec4 q2 = SAMPLE(x0, l, vec3(p.x + t.x * as.x, p.y, p.z + t.y));
        t = column(l, min(4 * g + 3, inner - 1));
        vec4 q3 = SAMPLE(x0, l, vec3(p.x + t.x * as.x, p.y, p.z + t.y));
#endif
        // Past the inner length a row holds what happens to be there: it must not meet b's zeros.
        q1 = left > 1 ? q1 : vec4(0.0);
        q2 = left > 2 ? q2 : vec4(0.0);
        q3 = left > 3 ? q3 : vec4(0.0);
        vec4 v = SAMPLE(x1, m, b0 + shift);
        a0 += q0 * v.x + q1 * v.y + q2 * v.z + q3 * v.w;
#if LAYERS > 1
        v = SAMPLE(x1, m, b1 + shift);
        a1 += q0 * v.x + q1 * v.y + q2 * v.z + q3 * v.w;
#endif
#if LAYERS > 2
        v = SAMPLE(x1, m, b2 + shift);
        a2 += q0 * v.x + q1 * v.y + q2 * v.z + q3 * v.w;
        v = SAMPLE(x1, m, b3 + shift);
        a3 += q0 * v.x + q1 * v.y + q2 * v.z + q3 * v.w;
#endif
        shift.x += step;
      }
    }
  }
  o0 = keep(a0, at.y);
#if LAYERS > 1
  o1 = keep(a1, at.y);
#endif
#if LAYERS > 2
  o2 = keep(a2, at.y);
  o3 = keep(a3, at.y);
#endif
}
