// Renders a view's elements into a picture.

/** The largest picture side that browsers draw: the lower of Chromium's and Firefox's limits. */
const MAX_SCREENSHOT_SIDE = 16_384;

/** Characters that are invalid in XML but may occur in layer names. */
const INVALID_XML = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

/** A PNG of an element with its own styles, at the screen's resolution. */
export async function takeScreenshot(
  root: HTMLElement,
  cssText: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const { width, height } = root.getBoundingClientRect();
  if (width === 0 || height === 0) throw new Error("this page shows no view of it");
  const ratio = Math.min(window.devicePixelRatio, MAX_SCREENSHOT_SIDE / Math.max(width, height));
  const copy = cloneWithState(root);
  // Copy the page's CSS variables that the style sheet uses.
  const own = getComputedStyle(root);
  for (const name of new Set(cssText.match(/--jp-[\w-]+/g) ?? [])) {
    const value = own.getPropertyValue(name);
    if (value !== "") copy.style.setProperty(name, value);
  }
  const sheet = document.createElement("style");
  // Disable transitions and animations; hover and focus do not occur.
  sheet.textContent = `${cssText}\n* { transition: none !important; animation: none !important; }`;
  const page = document.createElement("div");
  page.setAttribute("style", `width: ${width}px; height: ${height}px; overflow: hidden;`);
  page.append(sheet, copy);
  const text = new XMLSerializer().serializeToString(page).replace(INVALID_XML, "");
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">` +
    `<foreignObject width="100%" height="100%">${text}</foreignObject></svg>`;
  const image = new Image();
  // Not a blob URL: it would taint the canvas, which could then not be read.
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

/** Clone an element including state that is not in attributes: canvas pixels, form values, scroll positions. */
function cloneWithState(root: HTMLElement): HTMLElement {
  const copy = root.cloneNode(true) as HTMLElement;
  copy.removeAttribute("popover"); // a closed popover would be hidden
  const copies = [copy, ...copy.querySelectorAll("*")];
  for (const [k, element] of [root, ...root.querySelectorAll("*")].entries()) {
    const mine = copies[k];
    if (!(mine instanceof HTMLElement)) continue;
    if (element instanceof HTMLCanvasElement && element.width * element.height > 0) {
      // A canvas is not rendered in an SVG image, so its pixels become its background image.
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
