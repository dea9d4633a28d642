// A function of one tensor that lies exactly as the output does: each fragment reads its own texels.
void main() {
  vec2 here = gl_FragCoord.xy / vec2(textureSize(x0, 0).xy);
  int g = origin().y;
  o0 = keep(activate(FETCH(x0, vec3(here, 0.0))), g);
#if LAYERS > 1
  o1 = keep(activate(FETCH(x0, vec3(here, 1.0))), g);
#endif
#if LAYERS > 2
  o2 = keep(activate(FETCH(x0, vec3(here, 2.0))), g);
  o3 = keep(activate(FETCH(x0, vec3(here, 3.0))), g);
#endif
}
