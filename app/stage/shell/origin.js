// Runs before Streamlit, as a plain script: it names the server, so that Streamlit does not look
// for it below the address of each page.
{
  const script = /** @type {HTMLScriptElement} */ (document.currentScript),
    root = new URL('../../../', script.src).href;
  Object.assign(window, { __streamlit: { BACKEND_BASE_URL: root } });
}
