// esbuild imports shaders as text.
declare module "*.glsl" {
  const text: string;
  export default text;
}
