// flatten.glsl for a tensor of single pixels whose texels hold four elements that follow each other.
void main() {
  Layout l = u.x[0];
  ivec2 p = ivec2(gl_FragCoord.xy);
  int index = min(p.y * u_width + p.x, l.nchw.x * l.tile.w - 1), image = quotient(index, l.tile.w);
  o0 = texel(x0, l, ivec4(image, index - image * l.tile.w, 0, 0));
}
