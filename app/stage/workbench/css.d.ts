// app/web/modules.py hands a style over as its text.
declare module '*.css' {
  const text: string;
  export default text;
}
