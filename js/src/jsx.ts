// What the bundle's elements are made with: build.js puts it into every file.
export { Fragment, h } from "preact";
