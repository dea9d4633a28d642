// What the bundle's elements are made with: build.js puts it into every file, under names that no local one hides.
export { Fragment as ElementFragment, h as makeElement } from "preact";
