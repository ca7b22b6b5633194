import eslint from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/", ".build/", "src/gen/"] },
  eslint.configs.recommended,
  tseslint.configs.strictTypeChecked,
  tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      eqeqeq: "error",
      "max-lines-per-function": ["error", { max: 70, skipComments: true }],
      "max-lines": ["error", { max: 400 }],
      // Callers in JavaScript pass what the types forbid; the checks of it are no mistake.
      "@typescript-eslint/no-unnecessary-condition": "off",
      "@typescript-eslint/explicit-module-boundary-types": "error",
    },
  },
  {
    // Configuration, which no tsconfig includes.
    files: ["*.js"],
    extends: [tseslint.configs.disableTypeChecked],
    rules: { "@typescript-eslint/explicit-module-boundary-types": "off" },
  },
  {
    // The runner of tests awaits what describe and test return.
    files: ["test/**"],
    rules: {
      "@typescript-eslint/no-floating-promises": "off",
      // A describe is a list.
      "max-lines-per-function": "off",
    },
  },
);
