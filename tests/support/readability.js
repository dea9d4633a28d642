// What can't be read in the page's Viewer, as lines of words; sizes are those on the screen, whatever zooms.
() => {
  const root = document.querySelector('.nbglcnn');
  const faults = [];
  const named = (element) => {
    const own = element.closest('[class]');
    return own === null ? element.tagName : `.${(own.getAttribute('class') ?? '').split(' ').join('.')}`;
  };
  const short = (text) => JSON.stringify(text.trim().replace(/\s+/g, ' ').slice(0, 40));
  const zoomOf = (element) => {
    let zoom = 1;
    for (let one = element; one && one !== root; one = one.parentElement) {
      const { transform } = getComputedStyle(one);
      if (transform !== 'none') zoom *= Math.abs(new DOMMatrix(transform).a);
    }
    return zoom;
  };
  const inside = (a, b, slack) =>
    a.left >= b.left - slack && a.right <= b.right + slack
    && a.top >= b.top - slack && a.bottom <= b.bottom + slack;
  const overlap = (a, b) => [
    Math.min(a.right, b.right) - Math.max(a.left, b.left),
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top),
  ];
  const shows = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  // The boxes around that cut off what is outside of them; some are there to be scrolled.
  const cutting = (element) => {
    const found = [];
    for (let one = element; one && root.contains(one); one = one.parentElement) {
      const { overflowX } = getComputedStyle(one);
      if (overflowX !== 'visible' && one.tagName !== 'CANVAS') found.push([one, one.matches(SCROLLED)]);
    }
    return found;
  };
  // Boxes that stand above the rest for a while, and hide what is under them.
  const ABOVE = '.nbg-tip, .nbg-latent-tip, .nbg-save-menu, .nbg-train-popover';
  const SCROLLED = '.nbg-rail-list, .nbg-module-layers-list, .nbg-changes, .nbg-groups, .nbg-wrap, .nbg-moved, .nbg-beyond,' +
    ' pre';
  // What of a place is to be seen; null where all of it is scrolled away. The content scrolls up and down alone.
  const seen = (rect, boxes) => {
    let { left, top, right, bottom } = rect;
    for (const [box, scrolls] of boxes) {
      const around = box.getBoundingClientRect();
      if (scrolls || box.matches('.nbg-content')) {
        top = Math.max(top, around.top);
        bottom = Math.min(bottom, around.bottom);
      }
      if (scrolls) {
        left = Math.max(left, around.left);
        right = Math.min(right, around.right);
      }
    }
    return right > left && bottom > top ? { left, top, right, bottom } : null;
  };

  // What is left out of a text is told where the pointer stays.
  const told = (box, { data }) =>
    box.title !== '' || box.closest('[title]')?.title.includes(data.trim().replace(/\s+/g, ' '));
  // Texts.
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    if (node.data.trim() === '' || parent.closest('style, option, datalist, title')) continue;
    if (!shows(parent)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = [...range.getClientRects()].filter(({ width, height }) => width > 0.5 && height > 0.5);
    if (rects.length === 0) continue;
    const style = getComputedStyle(parent);
    const size = parseFloat(style.fontSize) * zoomOf(parent);
    if (size < 10.9) faults.push(`letters of ${size.toFixed(1)} px: ${short(node.data)} in ${named(parent)}`);
    const boxes = cutting(parent);
    for (const whole of rects) {
      const rect = seen(whole, boxes);
      if (rect === null) continue;
      let cut = false;
      for (const [box, scrolls] of boxes) {
        if (scrolls) continue;
        const around = box.getBoundingClientRect();
        const below = rect.bottom > around.bottom + 3 || rect.top < around.top - 3;
        const hides = getComputedStyle(box).overflowY === 'hidden';
        if (rect.left >= around.left - 1 && rect.right <= around.right + 1 && !(below && hides)) continue;
        if (getComputedStyle(box).textOverflow === 'ellipsis' && told(box, node)) {
          rect.right = Math.min(rect.right, around.right);
          continue;
        }
        cut = true;
        faults.push(`cut off: ${short(node.data)} in ${named(parent)} by ${named(box)}`);
        break;
      }
      if (cut) continue;
      texts.push({ node, rect, parent, above: parent.closest(ABOVE) });
      const { left, right } = root.getBoundingClientRect();
      if (rect.left < left - 1 || rect.right > right + 1) {
        faults.push(`outside of the Viewer: ${short(node.data)} in ${named(parent)}`);
      }
    }
    // A name that was cut, down to less than four letters.
    const box = parent.getBoundingClientRect();
    if (style.textOverflow === 'ellipsis' && parent.scrollWidth > parent.clientWidth) {
      const room = box.right - 0.85 * size;
      let letters = 0;
      for (let k = 0; k < node.data.length; k++) {
        range.setStart(node, k);
        range.setEnd(node, k + 1);
        if (range.getBoundingClientRect().right <= room) letters++;
      }
      if (letters < 4) faults.push(`${letters} letters are left: ${short(node.data)} in ${named(parent)}`);
    }
    // A word in pieces, one of them shorter than four letters.
    if (rects.length > 1) {
      for (const { 0: word, index } of node.data.matchAll(/[\p{L}\p{N}]{4,}/gu)) {
        const pieces = [];
        let last = null;
        for (let k = index; k < index + word.length; k++) {
          range.setStart(node, k);
          range.setEnd(node, k + 1);
          const { top, width } = range.getBoundingClientRect();
          if (width === 0) continue;
          if (last === null || Math.abs(top - last) > 3) pieces.push(0);
          pieces[pieces.length - 1]++;
          last = top;
        }
        if (pieces.length > 1 && Math.min(...pieces) < 4) {
          faults.push(`in pieces of ${pieces.join(' and ')} letters: ${short(word)} in ${named(parent)}`);
        }
      }
    }
  }
  for (let i = 0; i < texts.length; i++) {
    for (let j = i + 1; j < texts.length; j++) {
      const [a, b] = [texts[i], texts[j]];
      if (a.node === b.node || a.above !== b.above) continue;
      const [along, down] = overlap(a.rect, b.rect);
      if (along > 1.5 && down > 4) {
        faults.push(`over each other: ${short(a.node.data)} in ${named(a.parent)} and ` +
          `${short(b.node.data)} in ${named(b.parent)}`);
      }
    }
  }
  for (const field of root.querySelectorAll('input[type=number], input[type=text]')) {
    if (shows(field) && field.scrollWidth > field.clientWidth) {
      faults.push(`cut off: ${short(field.value)} in ${named(field)}`);
    }
  }
  // Of a list that is closed the page has no letters: 16 px are the arrow's.
  const paper = document.createElement('canvas').getContext('2d');
  for (const list of root.querySelectorAll('select')) {
    const { font, paddingLeft, paddingRight } = getComputedStyle(list);
    paper.font = font;
    const text = list.selectedOptions[0]?.text.trim() ?? '';
    const room = list.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight) - 16;
    if (shows(list) && paper.measureText(text).width > room + 1) faults.push(`cut off: ${short(text)} in ${named(list)}`);
  }

  // Pictures and charts.
  const picture = '.nbg-maps > canvas, .nbg-matrix, svg.nbg-bars, .nbg-histogram svg, .nbg-curve,' +
    ' canvas[data-tiles], canvas[data-prediction], canvas[data-example]';
  const within = root.getBoundingClientRect();
  const drawn = [];
  for (const one of root.querySelectorAll(picture)) {
    const whole = one.getBoundingClientRect();
    const rect = shows(one) && whole.width > 0 ? seen(whole, cutting(one)) : null;
    if (rect === null) continue;
    const name = one.getAttribute('aria-label') ?? named(one);
    drawn.push({ one, rect, name });
    if (rect.left < within.left - 1 || rect.right > within.right + 1) {
      faults.push(`outside of the Viewer: ${name}`);
    }
    const all = (one.closest('.nbg-padded') ?? one).getBoundingClientRect();
    if (one.matches('.nbg-explain canvas') && Math.max(all.width, all.height) < 119.5) {
      faults.push(`a picture of ${all.width.toFixed(0)}×${all.height.toFixed(0)} px: ${name}`);
    }
  }
  // Meant to lie on each other.
  const LAYERED = '.nbg-layered, .nbg-blend';
  for (const { one, rect, name } of drawn) {
    for (const other of texts) {
      if (one.contains(other.parent) || other.above !== one.closest(ABOVE)) continue;
      const [along, down] = overlap(rect, other.rect);
      if (along > 2 && down > 4) {
        faults.push(`over a picture: ${short(other.node.data)} in ${named(other.parent)} and ${name}`);
      }
    }
    for (const other of drawn) {
      if (other.one === one || one.closest(LAYERED) || other.one.closest(LAYERED)) continue;
      const [along, down] = overlap(rect, other.rect);
      if (along > 2 && down > 2 && one.compareDocumentPosition(other.one) & 4) {
        faults.push(`over each other: ${name} and ${other.name}`);
      }
    }
  }

  // Marks: rays lead from one picture to another, all else lies on its own.
  for (const mark of root.querySelectorAll('.nbg-overlay path:not(.nbg-ray), .nbg-mark')) {
    const place = mark.closest('.nbg-padded') ?? mark.closest('.nbg-maps')?.querySelector('canvas');
    const rect = mark.getBoundingClientRect();
    if (place && rect.width > 0 && !inside(rect, place.getBoundingClientRect(), 1.5)) {
      faults.push(`a mark outside of ${mark.closest('.nbg-maps').querySelector('canvas').getAttribute('aria-label')}`);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) faults.push('the page is wider than its window');
  return [...new Set(faults)];
}
