// A document as it was when the script began: what tests leave in it is taken away, or is found.

type ListenerArguments = Parameters<EventTarget["addEventListener"]>;
type Listener = readonly [
  on: EventTarget,
  type: ListenerArguments[0],
  call: ListenerArguments[1],
  capture: boolean,
];

/** What is here in each new document and outlives what is shown. */
const listenedTargets = (): readonly EventTarget[] => [
  globalThis,
  document,
  document.documentElement,
  document.body,
];
/** Objects whose own properties a test could set, beside all constructors and their prototypes. */
const namedWatchedObjects = () => [
  ...[document, navigator, navigator.clipboard, navigator.mediaDevices, document.fonts],
  ...[performance, screen, history, Math, JSON, Reflect, console],
];

type Properties = ReadonlyMap<PropertyKey, PropertyDescriptor>;
let properties: ReadonlyMap<object, Properties> = new Map();
let attributes: readonly (readonly [Element, ReadonlyMap<string, string>])[] = [];
let heads: readonly Node[] = [];
let address = "";
let listeners: Listener[] = [];

/** From now on this is how the document has to be. */
export function recordDocument(): void {
  for (const place of listenedTargets()) recordListeners(place);
  properties = new Map(watchedObjects().map((one) => [one, propertiesOf(one)]));
  attributes = [document.documentElement, document.head, document.body].map((one) => [
    one,
    new Map([...one.attributes].map(({ name, value }) => [name, value])),
  ]);
  heads = [...document.head.childNodes];
  address = location.href;
}

/** What is not as it was, now that what can be taken away is. */
export function restoreDocument(): string[] {
  for (const [place, type, call, capture] of listeners) {
    place.removeEventListener(type, call, capture);
  }
  listeners = [];
  for (const [element, before] of attributes) {
    for (const { name } of [...element.attributes]) {
      if (!before.has(name)) element.removeAttribute(name);
    }
    for (const [name, value] of before) {
      if (element.getAttribute(name) !== value) element.setAttribute(name, value);
    }
  }
  document.head.replaceChildren(...heads);
  document.body.replaceChildren();
  for (const node of [...document.documentElement.childNodes]) {
    if (node !== document.head && node !== document.body) node.remove();
  }
  document.adoptedStyleSheets = [];
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  getSelection()?.removeAllRanges();
  scrollTo(0, 0);
  localStorage.clear();
  sessionStorage.clear();
  const changed = [...properties].filter(([one, before]) => !restoreProperties(one, before));
  return [
    ...(document.fullscreenElement === null ? [] : ["the whole screen"]),
    ...(location.href === address ? [] : ["the address"]),
    ...changed.map(([one]) => String(one)),
  ];
}

/** From now on it is known which listeners the place has. */
function recordListeners(target: EventTarget): void {
  const { prototype } = EventTarget; // whose own functions a test may replace
  const of = (options?: boolean | EventListenerOptions) =>
    typeof options === "object" ? options.capture === true : options === true;
  target.addEventListener = (
    type: string,
    call: ListenerArguments[1],
    options?: ListenerArguments[2],
  ) => {
    listeners.push([target, type, call, of(options)]);
    prototype.addEventListener.call(target, type, call, options);
  };
  target.removeEventListener = (
    type: string,
    call: ListenerArguments[1],
    options?: ListenerArguments[2],
  ) => {
    const without = ([on, name, one, capture]: Listener) =>
      on !== target || name !== type || one !== call || capture !== of(options);
    listeners = listeners.filter(without);
    prototype.removeEventListener.call(target, type, call, options);
  };
}

/** Whatever has properties that all of the document shares. */
function watchedObjects(): object[] {
  const found = new Set<object>(namedWatchedObjects().filter((one) => one !== undefined));
  for (const key of Object.keys(Object.getOwnPropertyDescriptors(globalThis))) {
    const { value } = Object.getOwnPropertyDescriptor(globalThis, key) ?? {};
    if (typeof value !== "function") continue;
    found.add(value);
    if (typeof value.prototype === "object" && value.prototype !== null) found.add(value.prototype);
  }
  return [...found, globalThis];
}

function propertiesOf(watched: object): Properties {
  const found = new Map(Object.entries(Object.getOwnPropertyDescriptors(watched)));
  if (watched === globalThis) found.delete("views");
  return found;
}

/** Whether an object has the properties that it had, once those that can be are put back. */
function restoreProperties(watched: object, before: Properties): boolean {
  const now = propertiesOf(watched);
  let whole = true;
  for (const key of now.keys()) {
    if (!before.has(key)) whole = Reflect.deleteProperty(watched, key) && whole;
  }
  for (const [key, was] of before) {
    const found = now.get(key);
    const same =
      Object.is(found?.value, was.value) && found?.get === was.get && found?.set === was.set;
    if (!same) whole = Reflect.defineProperty(watched, key, was) && whole;
  }
  return whole;
}
