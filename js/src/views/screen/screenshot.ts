// A view's elements, drawn once more into a picture.

/** What a browser draws no larger picture of; Chromium's and Firefox's least. */
const MAX_SIDE = 16_384;

/** Characters that no XML may have; names of layers may. */
const INVALID_XML = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

/** A PNG of an element with the styles that are its own, in the screen's pixels. */
export async function takeScreenshot(
  root: HTMLElement,
  style: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const { width, height } = root.getBoundingClientRect();
  if (width === 0 || height === 0) throw new Error("this page shows no view of it");
  const ratio = Math.min(window.devicePixelRatio, MAX_SIDE / Math.max(width, height));
  const copy = cloneWithState(root);
  // Of the page around it, what its style sheet asks for.
  const own = getComputedStyle(root);
  for (const name of new Set(style.match(/--jp-[\w-]+/g) ?? [])) {
    const value = own.getPropertyValue(name);
    if (value !== "") copy.style.setProperty(name, value);
  }
  const sheet = document.createElement("style");
  // No picture moves, and nothing is hovered or focused in it.
  sheet.textContent = `${style}\n* { transition: none !important; animation: none !important; }`;
  const page = document.createElement("div");
  page.setAttribute("style", `width: ${width}px; height: ${height}px; overflow: hidden;`);
  page.append(sheet, copy);
  const text = new XMLSerializer().serializeToString(page).replace(INVALID_XML, "");
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">` +
    `<foreignObject width="100%" height="100%">${text}</foreignObject></svg>`;
  const image = new Image();
  // Not a blob's address: what is drawn from one cannot be read again.
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  if (context === null) throw new Error("this browser can’t create a canvas");
  context.fillStyle = own.backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (blob === null) throw new Error("this browser can’t write a PNG file");
  return new Uint8Array(await blob.arrayBuffer());
}

/** A copy of an element that shows what the element shows, for what is no attribute: pixels, choices, scrolling. */
function cloneWithState(root: HTMLElement): HTMLElement {
  const copy = root.cloneNode(true) as HTMLElement;
  copy.removeAttribute("popover"); // one that nobody opened is not shown
  const copies = [copy, ...copy.querySelectorAll("*")];
  for (const [k, element] of [root, ...root.querySelectorAll("*")].entries()) {
    const mine = copies[k];
    if (!(mine instanceof HTMLElement)) continue;
    if (element instanceof HTMLCanvasElement && element.width * element.height > 0) {
      // In a picture nobody draws a canvas; what stands behind its pixels is drawn.
      mine.style.backgroundImage = `url("${element.toDataURL()}")`;
      mine.style.backgroundSize = "100% 100%";
    } else if (element instanceof HTMLInputElement) {
      mine.setAttribute("value", element.value);
      mine.toggleAttribute("checked", element.checked);
    } else if (element instanceof HTMLOptionElement) {
      mine.toggleAttribute("selected", element.selected);
    }
    const { scrollLeft, scrollTop } = element;
    if (scrollLeft === 0 && scrollTop === 0) continue;
    mine.style.overflow = "hidden";
    for (const child of mine.children) {
      if (child instanceof HTMLElement) child.style.translate = `${-scrollLeft}px ${-scrollTop}px`;
    }
  }
  return copy;
}
