// The number of a fragment among those of a target that is u_width wide.
int index_of() {
  ivec2 p = ivec2(gl_FragCoord.xy);
  return p.y * u_width + p.x;
}
