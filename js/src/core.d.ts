// What build.js makes: the core's modules that rooms take, by their files.
declare module "core:modules" {
  export const modules: Readonly<Record<string, unknown>>;
}
