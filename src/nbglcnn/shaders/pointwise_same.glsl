// A function of one tensor that lies exactly as the output does: each fragment reads its own texels.
void main() {
  ivec2 p = ivec2(gl_FragCoord.xy);
  int g = origin().y;
  o0 = keep(activate(fetch(x0, ivec3(p, 0))), g);
#if LAYERS > 1
  o1 = keep(activate(fetch(x0, ivec3(p, 1))), g);
#endif
#if LAYERS > 2
  o2 = keep(activate(fetch(x0, ivec3(p, 2))), g);
  o3 = keep(activate(fetch(x0, ivec3(p, 3))), g);
#endif
}
