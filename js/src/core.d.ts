// What build.js makes: the core's modules that rooms take, by their files.
declare module "core:modules" {
  export const modules: Readonly<Record<string, unknown>>;
}

// And all rooms, for a page that has them from the first.
declare module "core:rooms" {
  import type { RoomExports, RoomName } from "./views/rooms.tsx";
  export const rooms: readonly { readonly name: RoomName; readonly room: RoomExports }[];
}
